#pragma once
// A model without weights (eval.md 1): loaders, prompts and metrics of every
// task can be tried in seconds, and give the same numbers everywhere.

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>

#include "osdn/core/hash.h"
#include "osdn/eval/request.h"

namespace osdn::eval {

/// With D = SHA-256(context, 0x1F, continuation) and h its first 8 bytes, big
/// end first: the log-likelihood is -floor(h / 2^11) / 2^53, in (-1, 0]; greedy
/// is the lowest bit of D's last byte; a prompt is continued by its own first
/// 200 code points, which no rule cuts.
class DummyModel : public Responder {
 public:
  std::unique_ptr<BatchRun> begin(const RequestBatch& batch) override;
  /// Rows that a task has an answer of its own for.
  std::unique_ptr<BatchRun> begin(
      std::size_t rows, std::function<Answer(std::size_t row)> answer) const;
};

/// Log-likelihood and greedy of a continuation behind a context that has been
/// hashed already.
Answer dummy_answer(Sha256 context, std::string_view continuation);

}  // namespace osdn::eval
