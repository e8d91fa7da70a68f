#pragma once
// How a model answers the batches of each kind.

#include <memory>

#include "osdn/eval/model_session.h"
#include "osdn/eval/request.h"
#include "osdn/eval/task.h"

namespace osdn::eval {

/// log p of continuations: rows are packed side by side, and rows of one
/// document run what they have in common once and go on from its state.
std::unique_ptr<BatchRun> likelihood_run(const ModelSession& session,
                                         const RequestBatch& batch);

/// log p of documents in windows (eval.md 2); work is counted in tokens.
std::unique_ptr<BatchRun> rolling_run(const ModelSession& session,
                                      const RequestBatch& batch);

/// Greedy text behind prompts: each is encoded (with BOS where the batch says
/// so), cut by the rule and continued, many at once; sequences that have ended
/// leave the batch and others take their places. The new tokens are decoded
/// alone, up to the first stop. `Answer::tokens` counts them, an end token
/// included. Throws Error (kBadInput) naming the request for a prompt without a
/// token.
std::unique_ptr<BatchRun> generation_run(const ModelSession& session,
                                         const RequestBatch& batch);

/// Any batch but one of kMeasure.
std::unique_ptr<BatchRun> model_run(const ModelSession& session,
                                    const RequestBatch& batch);

/// A batch of kMeasure, answered by the task.
std::unique_ptr<BatchRun> measure_run(const ModelSession& session,
                                      const PreparedTask& task);

}  // namespace osdn::eval
