#pragma once
// The training loop.

#include <chrono>
#include <memory>
#include <string>

#include "osdn/checkpoint/checkpoint_store.h"
#include "osdn/config/config.h"
#include "osdn/data/loader.h"
#include "osdn/data/validation_set.h"
#include "osdn/model/language_model.h"
#include "osdn/optim/adamw.h"
#include "osdn/report/live_line.h"
#include "osdn/report/rate_meter.h"
#include "osdn/report/step_log.h"
#include "osdn/train/agenda.h"
#include "osdn/train/gradient_observer.h"
#include "osdn/train/run_state.h"
#include "osdn/train/stop_request.h"

namespace osdn::train {

/// What a loop works on; all of it outlives the Trainer.
struct TrainerParts {
  const config::Config& config;
  model::LanguageModel& model;
  optim::AdamW& adamw;
  data::Loader& loader;  ///< standing at state.next_sample
  const data::ValidationSet* validation = nullptr;  ///< null: none
  checkpoint::CheckpointStore& store;
  report::StepLog& log;
  StopRequest& stop;
  RunState& state;
  bool resumed = false;  ///< state is that of a checkpoint in `store`
  GradientObserver observer{};
  double peak_tflops = 0;  ///< of the GPU; 0: what is known of it
};

class Trainer {
 public:
  explicit Trainer(const TrainerParts& parts);

  /// Trains until training.steps, the data's end, or a request to stop; then
  /// the state is on disk. Throws Error: kNonFinite when the step policy says
  /// stop or the state itself is found not finite when it is to be saved,
  /// kFailure when the last checkpoint could not be written.
  void run();

 private:
  using Clock = std::chrono::steady_clock;
  struct NextBatch;

  /// `start`: when work on the step began, for its speed.
  void take_step(const data::StepBatch& batch, bool last,
                 Clock::time_point start);
  NextBatch fetch();
  void show(const report::StepRecord& record, bool last);
  /// A validation that is interrupted is marked as owed.
  void validate_into(report::StepRecord& record);
  /// Makes up for the validation that the stop of this run's last part cut off.
  void settle_validation();
  void append(const report::StepRecord& record);
  bool save();
  void save_or_throw();
  [[noreturn]] void throw_unsaved() const;
  double seconds_left() const;

  TrainerParts parts_;
  Agenda agenda_;
  report::LiveLine line_;
  report::RateMeter token_meter_;
  report::RateMeter step_meter_;
  std::string config_json_;
  std::string log_problem_;
  std::string save_problem_;  ///< of the latest save, empty after a good one
  bool state_is_bad_ = false;
};

}  // namespace osdn::train
