#pragma once
// The training loop.

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "osdn/checkpoint/checkpoint_store.h"
#include "osdn/config/config.h"
#include "osdn/data/loader.h"
#include "osdn/data/validation_set.h"
#include "osdn/dist/world.h"
#include "osdn/model/language_model.h"
#include "osdn/optim/adamw.h"
#include "osdn/report/live_line.h"
#include "osdn/report/rate_meter.h"
#include "osdn/report/step_log.h"
#include "osdn/report/time_left.h"
#include "osdn/train/agenda.h"
#include "osdn/train/gradient_observer.h"
#include "osdn/train/pass_runner.h"
#include "osdn/train/replica.h"
#include "osdn/train/run_state.h"
#include "osdn/train/saver.h"
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
  report::StepLog* log;  ///< null on all ranks but the first
  StopRequest& stop;
  dist::World& world;
  Replica* replica = nullptr;  ///< where a launcher started the ranks
  RunState& state;
  bool resumed = false;  ///< state is that of a checkpoint in `store`
  /// A record of the log whose validation the last part of the run left out.
  std::optional<report::StepRecord> owed{};
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
  /// What any rank was asked for since the last call; agreed on by all.
  void look_for_requests();
  void begin_save();
  void settle(const std::optional<SaveOutcome>& outcome);
  /// Saves what is not saved and waits for it.
  bool save();
  void save_or_throw();
  [[noreturn]] void throw_unsaved() const;
  /// Negative where it is not known.
  double seconds_left() const;

  TrainerParts parts_;
  const bool first_;  ///< this rank speaks for all
  PassRunner passes_;
  Agenda agenda_;
  Saver saver_;
  std::optional<std::string> stopped_by_;
  bool save_wanted_ = false;
  report::LiveLine line_;
  report::RateMeter token_meter_;
  report::TimeLeft time_left_;
  std::string config_json_;
  std::string log_problem_;
  std::string save_problem_;    ///< of the latest save, empty after a good one
  std::int64_t save_step_ = 0;  ///< of the latest save
  bool state_is_bad_ = false;
};

}  // namespace osdn::train
