#pragma once
// What all tasks of one call share: the model, or the dummy, and the tokenizer.

#include <memory>
#include <optional>
#include <string>

#include "osdn/eval/dummy_model.h"
#include "osdn/eval/model_session.h"
#include "osdn/eval/options.h"
#include "osdn/eval/result.h"
#include "osdn/eval/task.h"
#include "osdn/ops/compute_choice.h"

namespace osdn::eval {

class EvaluationSession {
 public:
  /// With the weights, or, for request hashes, without them. Throws Error for
  /// what is wrong with checkpoint or tokenizer.
  enum class Weights { kLoad, kLeave };
  EvaluationSession(const EvalOptions& options, Weights weights);

  const EvalOptions& options() const { return options_; }
  std::optional<std::int64_t> max_len() const { return max_len_; }
  const tokenizer::Tokenizer* tokenizer() const { return tokenizer_.get(); }
  TaskContext context(const TaskInfo& info) const;
  /// "NVIDIA H200", "cpu, 2 threads", "none" for the dummy.
  std::string device() const;
  /// Model, tokenizer, dtype and batch_tokens.
  void describe(Result& result) const;
  /// Answers the batch of a task. Throws Error (kUsage) for a measure where
  /// there is no model to look into.
  std::unique_ptr<BatchRun> begin(const PreparedTask& task);

 private:
  void open_tokenizer(const std::string& of_run);
  void choose_prefix();

  const EvalOptions& options_;
  ops::ComputeChoice compute_;
  std::optional<model::TrainedFolder> folder_;
  std::unique_ptr<model::TrainedModel> trained_;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer_;
  std::optional<std::int64_t> max_len_;
  std::int32_t prefix_ = 0;
  std::optional<ModelSession> session_;
  DummyModel dummy_;
};

}  // namespace osdn::eval
