#pragma once
// A loaded model with what all tasks of a call share.

#include <cstdint>
#include <optional>

#include "osdn/eval/request.h"
#include "osdn/model/trained_model.h"
#include "osdn/tokenizer/tokenizer.h"

namespace osdn::eval {

struct ModelSession {
  model::TrainedModel& trained;
  const tokenizer::Tokenizer* tokenizer = nullptr;  ///< null: none was given
  std::optional<std::int64_t> max_len{};  ///< tokens of an input; absent: any
  bool rolling_full = false;              ///< --rolling full
  std::int64_t batch_tokens = 8192;       ///< of one forward pass
  std::int32_t prefix = 0;                ///< BOS, or EOS where there is none

  /// Throws Error (kUsage) where there is none.
  const tokenizer::Tokenizer& need_tokenizer() const;
};

/// An observer of the model while this lives.
class ObserverScope {
 public:
  ObserverScope(const ModelSession& session,
                layers::AttentionObserver& observer);
  ~ObserverScope();
  ObserverScope(const ObserverScope&) = delete;
  ObserverScope& operator=(const ObserverScope&) = delete;

 private:
  model::LanguageModel& model_;
};

}  // namespace osdn::eval
