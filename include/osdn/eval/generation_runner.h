#pragma once
// Greedy generation behind prompts, many at once.

#include <cstddef>
#include <span>
#include <vector>

#include "osdn/eval/model_session.h"
#include "osdn/eval/request.h"

namespace osdn::eval {

/// Rows by the length of their prompts, longest first, some hundreds a pack.
std::vector<Pack> generation_packs(const RequestBatch& batch);

/// Answers rows of a kGeneration batch: encodes each prompt (with BOS where the
/// batch says so), cuts it by the rule, continues it, and decodes the new
/// tokens alone. `Answer::tokens` counts the new tokens, end token included.
/// Throws Error naming the request's place for a prompt without a token.
void generate_answers(const ModelSession& session, const RequestBatch& batch,
                      std::span<const std::size_t> rows,
                      const AnswerDone& done);

}  // namespace osdn::eval
