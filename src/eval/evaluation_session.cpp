#include "evaluation_session.h"

#include <utility>

#include "evaluation_options.h"
#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/eval/model_runs.h"
#include "osdn/eval/task_table.h"
#include "osdn/ops/gpu.h"
#include "osdn/ops/threads.h"

namespace osdn::eval {

namespace {

/// A model that was trained on ids alone has no tokenizer.
bool any_reads_text(const EvalOptions& options) {
  for (const SelectedTask& task : select_tasks(options.tasks)) {
    if (!task.definition->info.reads_ids) return true;
  }
  return false;
}

}  // namespace

EvaluationSession::EvaluationSession(const EvalOptions& options,
                                     Weights weights)
    : options_(options), max_len_(parse_max_len(options.max_len)) {
  if (is_dummy(options)) {
    open_tokenizer("");
    return;
  }
  if (weights == Weights::kLeave) {
    folder_ = model::open_trained_folder(options.model);
  } else {
    compute_ = compute_of(options);
    trained_ = std::make_unique<model::TrainedModel>(model::load_trained_model(
        options.model, compute_.dtype, compute_.device));
    folder_ = *trained_;
  }
  const config::Config& config = folder_->config;
  if (options.max_len.empty()) max_len_ = config.data.context_length;
  open_tokenizer(config.data.tokenizer);
  if (!tokenizer_ && any_reads_text(options)) {
    throw Error(
        "the run names no tokenizer (data.tokenizer); give one with "
        "--tokenizer",
        ExitCode::kUsage);
  }
  if (tokenizer_) {
    tokenizer_->check_fits(config.model.vocab_size);
    choose_prefix();
  }
  if (trained_) {
    session_.emplace(ModelSession{*trained_, tokenizer_.get(), max_len_,
                                  options.rolling == "full",
                                  options.batch_tokens, prefix_});
  }
}

void EvaluationSession::open_tokenizer(const std::string& of_run) {
  const auto file = options_.tokenizer.value_or(of_run);
  if (!file.empty()) {
    tokenizer_ = std::make_unique<tokenizer::Tokenizer>(file);
  }
}

void EvaluationSession::choose_prefix() {
  const auto bos = tokenizer_->bos_id();
  const auto prefix = bos ? bos : tokenizer_->eos_id();
  if (!prefix || (options_.bos == "1" && !bos)) {
    throw Error(
        concat("tokenizer ", tokenizer_->path().string(), " defines no begin ",
               prefix ? "token, so there is no --bos 1"
                      : "and no end token; an empty context needs one in "
                        "front of the first token"),
        ExitCode::kBadInput);
  }
  prefix_ = *prefix;
}

TaskContext EvaluationSession::context(const TaskInfo& info) const {
  return {info, options_, max_len_, tokenizer_.get()};
}

std::string EvaluationSession::device() const {
  if (!session_) return "none";
  return compute_.device.is_cuda()
             ? ops::gpu().name
             : concat("cpu, ", ops::thread_count(), " threads");
}

void EvaluationSession::describe(Result& result) const {
  result.model = "dummy";
  if (folder_) {
    result.model = folder_->folder.string();
    result.model_config_hash = folder_->config_hash;
    result.weights_hash = folder_->weights_hash;
    result.dtype = compute_.dtype_name;
    result.batch_tokens = options_.batch_tokens;
  }
  if (tokenizer_) {
    result.tokenizer = tokenizer_->path().filename().string();
    result.tokenizer_hash = tokenizer_->sha256();
  }
}

std::unique_ptr<BatchRun> EvaluationSession::begin(const PreparedTask& task) {
  if (task.batch.kind == RequestKind::kMeasure) {
    if (session_) return measure_run(*session_, task);
    if (task.dummy) {
      return dummy_.begin(task.batch.requests.size(), task.dummy);
    }
    throw Error(concat(task.name,
                       " is measured inside of a model, layer by layer or "
                       "token by token, and the dummy answers whole requests "
                       "alone; give --model the folder of a run"),
                ExitCode::kUsage);
  }
  return session_ ? model_run(*session_, task.batch) : dummy_.begin(task.batch);
}

}  // namespace osdn::eval
