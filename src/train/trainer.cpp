#include "osdn/train/trainer.h"

#include <chrono>
#include <cmath>
#include <exception>
#include <optional>

#include "osdn/checkpoint/run_dir.h"
#include "osdn/config/reader.h"
#include "osdn/config/schedule.h"
#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/log.h"
#include "osdn/report/format.h"
#include "osdn/report/step_line.h"
#include "osdn/train/gpu_use.h"
#include "osdn/train/train_step.h"
#include "osdn/train/validation.h"

namespace osdn::train {

namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

double unix_time() {
  return std::chrono::duration<double>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

/// A batch that was taken ahead: a step has to know whether another follows. An
/// error waits until it is that batch's turn.
struct Trainer::NextBatch {
  std::optional<data::StepBatch> batch;
  std::exception_ptr error;

  bool at_end() const { return !batch && !error; }
};

Trainer::Trainer(const TrainerParts& parts)
    : parts_(parts),
      first_(parts.world.place().first()),
      passes_(parts.model, parts.config, parts.replica == nullptr),
      agenda_(parts.config, parts.resumed ? parts.state.step : -1),
      saver_(parts.store, parts.world),
      config_json_(config::to_json(parts.config)) {
  token_meter_.sample(parts.state.train_seconds, parts.state.tokens);
}

Trainer::NextBatch Trainer::fetch() {
  NextBatch next;
  try {
    next.batch = parts_.loader.next_step();
  } catch (...) {
    next.error = std::current_exception();
  }
  return next;
}

void Trainer::run() {
  const std::int64_t steps = parts_.config.training.steps;
  RunState& state = parts_.state;
  look_for_requests();
  settle_validation();
  if (state.step >= steps) {
    log::info("nothing is left to do: step ", state.step,
              " is done and training.steps is ", steps);
    return;
  }
  NextBatch next = fetch();
  while (state.step < steps && !next.at_end()) {
    look_for_requests();
    if (stopped_by_) {
      break;
    }
    if (next.error) {
      if (parts_.world.place().alone()) save();
      std::rethrow_exception(next.error);
    }
    const Clock::time_point start = Clock::now();
    const data::StepBatch batch = std::move(*next.batch);
    next = state.step + 1 < steps ? fetch() : NextBatch{};
    take_step(batch, next.at_end(), start);
  }
  save_or_throw();
  line_.finish();
  const std::string use = gpu_use(
      parts_.config, token_meter_.rate().value_or(0), parts_.peak_tflops);
  if (!use.empty()) {
    log::info(use);
  }
  if (stopped_by_ && state.step == 0) {
    log::info("stopped by ", *stopped_by_, " before the first step");
  } else if (stopped_by_) {
    log::info("stopped by ", *stopped_by_, " after step ", state.step, " of ",
              steps, "; the state is saved, --resume auto goes on from it");
  } else if (state.step < steps) {
    log::info("the data ended after step ", state.step, " of ", steps,
              " (data.epochs = ", parts_.config.data.epochs, ")");
  } else {
    log::info("finished step ", state.step, " of ", steps);
  }
}

void Trainer::take_step(const data::StepBatch& batch, bool last,
                        Clock::time_point start) {
  RunState& state = parts_.state;
  const std::int64_t step = state.step + 1;
  StepOptions options;
  options.lr =
      config::learning_rate(parts_.config.schedule, parts_.config.optimizer.lr,
                            parts_.adamw.counters().updates);
  options.max_grad_norm = parts_.config.optimizer.max_grad_norm;
  options.replica = parts_.replica;
  parts_.world.working(concat("step ", step));
  if (parts_.observer) {
    options.after_backward = [&] { parts_.observer(step, parts_.model); };
  }
  StepResult result;
  try {
    with_memory_advice(parts_.config, [&] {
      result = train_step(passes_, parts_.adamw, batch, options);
    });
  } catch (const Error&) {
    drop_gradients(parts_.model);
    if (parts_.world.place().alone()) save();
    throw;
  }
  const Decision decision = judge(parts_.config.training, step, result, state);
  if (decision.verdict == Verdict::kStopHere) {
    save();
    parts_.world.throw_agreed(decision.message, ExitCode::kNonFinite);
  }
  if (!decision.message.empty()) {
    log::warn(decision.message);
  }
  const double seconds = seconds_since(start);
  state.step = step;
  state.next_sample = batch.next_sample;
  state.tokens += batch.tokens;
  state.train_seconds += seconds;
  state.optimizer = parts_.adamw.counters();
  time_left_.step(seconds);
  token_meter_.sample(state.train_seconds, state.tokens);

  report::StepRecord record;
  record.step = step;
  record.loss = result.loss;
  record.grad_norm = result.grad_norm;
  record.lr = options.lr;
  record.tokens = state.tokens;
  record.tokens_per_s = static_cast<double>(batch.tokens) / seconds;
  record.skipped = result.outcome != StepOutcome::kUpdated;
  record.valid_labels = batch.valid_labels;
  record.time = unix_time();
  show(record, last);
  if (agenda_.validation_due(step, last)) {
    validate_into(record);
  }
  append(record);
  if (decision.verdict == Verdict::kStop) {
    save();
    parts_.world.throw_agreed(
        concat("stopped after ", state.skipped_in_row,
               " steps in a row that were not finite; weights and moments are "
               "those of update ",
               state.optimizer.updates, ". ", decision.message),
        ExitCode::kNonFinite);
  }
  if (saver_.under_way()) settle(saver_.poll());
  if (state_is_bad_) {
    throw_unsaved();  // what is not finite stays so: nothing is left to gain
  }
  if (agenda_.save_due(step, last) || (save_wanted_ && agenda_.unsaved(step))) {
    const Clock::time_point save_start = Clock::now();
    settle(saver_.finish());
    begin_save();
    time_left_.save(seconds_since(save_start));
  }
  save_wanted_ = false;
}

void Trainer::look_for_requests() {
  const std::optional<std::string> stop = parts_.stop.stop();
  const bool save = parts_.stop.take_save();
  bool any_stop = false;
  for (const auto& rank :
       parts_.world.all_numbers({stop ? 1.0 : 0.0, save ? 1.0 : 0.0})) {
    any_stop = any_stop || rank[0] != 0;
    save_wanted_ = save_wanted_ || rank[1] != 0;
  }
  if (!any_stop) return;
  for (const std::string& reason : parts_.world.all(stop.value_or(""))) {
    if (!reason.empty() && !stopped_by_) stopped_by_ = reason;
  }
}

double Trainer::seconds_left() const {
  const std::int64_t step = parts_.state.step;
  // This step's own validation and save come behind its line.
  const std::optional<double> left = time_left_.seconds(
      {.steps = parts_.config.training.steps - step,
       .validations = parts_.validation ? agenda_.validations_from(step) : 0,
       .saves = agenda_.saves_from(step)});
  const std::optional<double> limit = parts_.stop.seconds_left();
  if (!limit) return left.value_or(-1);
  return std::max(0.0, std::min(left.value_or(*limit), *limit));
}

void Trainer::show(const report::StepRecord& record, bool last) {
  // On a terminal the line is redrawn; elsewhere lines stay, so fewer of them.
  if (!first_) return;
  if (!line_.on_terminal() && !agenda_.line_due(record.step, last)) {
    return;
  }
  report::StepLine line;
  line.step = record.step;
  line.total = parts_.config.training.steps;
  line.loss = record.loss;
  line.grad_norm = record.grad_norm;
  line.lr = record.lr;
  line.tokens_per_s = token_meter_.rate().value_or(record.tokens_per_s);
  line.seconds_left = seconds_left();
  line.skipped = record.skipped;
  line_.show(report::format_step_line(line));
}

void Trainer::validate_into(report::StepRecord& record) {
  const Clock::time_point start = Clock::now();
  record.validation =
      validate(parts_.model, *parts_.validation, parts_.world, [this] {
        look_for_requests();
        return stopped_by_.has_value();
      });
  record.validation_owed = !record.validation;
  if (record.validation_owed) {
    log::info("the validation at step ", record.step,
              " was left unfinished; a resume makes up for it");
    return;
  }
  time_left_.validation(seconds_since(start));
  if (first_) {
    line_.print(report::format_validation_line(
        record.step, record.validation->loss, record.validation->tokens));
  }
  if (!std::isfinite(record.validation->loss)) {
    log::warn("the validation loss at step ", record.step,
              " is not finite; training goes on");
  }
}

void Trainer::settle_validation() {
  const std::optional<report::StepRecord>& owed = parts_.owed;
  if (!owed || owed->step != parts_.state.step ||
      parts_.validation == nullptr) {
    return;
  }
  log::info("first the validation at step ", owed->step,
            ", which was left unfinished");
  report::StepRecord record = *owed;
  validate_into(record);
  if (record.validation && parts_.log) {
    parts_.log->settle(record);
  }
}

void Trainer::append(const report::StepRecord& record) {
  if (!parts_.log || parts_.log->append(record)) {
    log_problem_.clear();
  } else if (log_problem_ != parts_.log->problem()) {
    log_problem_ = parts_.log->problem();
    log::error("the step log cannot be written, records wait in memory: ",
               log_problem_);
  }
}

bool Trainer::save() {
  settle(saver_.finish());
  const std::int64_t step = parts_.state.step;
  if (step == 0 || !agenda_.unsaved(step)) {
    return true;
  }
  begin_save();
  settle(saver_.finish());
  return !agenda_.unsaved(step);
}

void Trainer::begin_save() {
  const RunState& state = parts_.state;
  if (parts_.log) parts_.log->sync();
  saver_.begin(state.step,
               parts_.replica ? parts_.replica->host_state(parts_.adamw)
                              : whole_host_state(parts_.model, parts_.adamw),
               {{std::string(checkpoint::kConfigName), config_json_},
                {std::string(kStateName), to_json(state)}});
  agenda_.saved(state.step);
}

void Trainer::settle(const std::optional<SaveOutcome>& outcome) {
  if (!outcome) return;
  const checkpoint::SaveResult& result = outcome->result;
  state_is_bad_ = result.status == checkpoint::SaveStatus::kRefused;
  save_problem_ = result.saved() ? "" : result.problem;
  save_step_ = outcome->step;
  if (!result.saved()) {
    agenda_.save_failed(outcome->step);
    if (first_) {
      log::error("step ", outcome->step, " is not saved: ", result.problem,
                 "; older checkpoints are kept");
    }
    return;
  }
  log::info("saved ", result.path.string(), " in ",
            report::format_fixed(outcome->seconds, 2), " s");
  if (!result.problem.empty()) {
    log::warn(result.problem);
  }
  for (const std::filesystem::path& path : result.set_aside) {
    log::warn("a checkpoint of a later step is stale and was set aside: ",
              path.string());
  }
  for (const std::int64_t step : result.removed) {
    log::debug("removed the checkpoint of step ", step);
  }
}

void Trainer::save_or_throw() {
  if (!save()) {
    throw_unsaved();
  }
}

void Trainer::throw_unsaved() const {
  const std::string what = concat("the state of step ", save_step_,
                                  " could not be saved: ", save_problem_);
  if (!state_is_bad_) {
    parts_.world.throw_agreed(what, ExitCode::kFailure);
  }
  parts_.world.throw_agreed(
      concat(what,
             ". It stays so, and training ends; --resume auto goes on from the "
             "newest checkpoint, a lower optimizer.lr or an "
             "optimizer.max_grad_norm may avoid it"),
      ExitCode::kNonFinite);
}

}  // namespace osdn::train
