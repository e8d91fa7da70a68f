#pragma once
// Requests from outside to a training loop: signals and a time limit.
//
//   SIGTERM, SIGINT   finish the step, save, exit 0
//   SIGHUP            the same, unless it is ignored (nohup)
//   SIGUSR1           save after the step, go on
//   second SIGINT     end at once, as without a handler
//
// The end of Open MPI's mpirun (SIGTERM to it) counts as SIGTERM, at once.

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

namespace osdn::train {

/// Holds these signals back until a StopRequest stands, which then gets those
/// that came in between; for the time that a program takes to begin, also over
/// an exec.
void hold_stop_signals();

/// Installs the handlers; the destructor puts back what was there. One at a
/// time in a process.
class StopRequest {
 public:
  /// The time limits count from now: --stop-after, and --signal-before, which
  /// is given as the seconds until then. The first to come counts.
  explicit StopRequest(std::optional<double> stop_after_s = {},
                       std::optional<double> signal_in_s = {});
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  /// Why to stop ("SIGTERM", "--stop-after 15:00"); nothing: go on.
  std::optional<std::string> stop() const;
  /// True once for each SIGUSR1 since the last call.
  bool take_save();
  /// Seconds until the time limit; nothing without one.
  std::optional<double> seconds_left() const;

 private:
  void listen_to_launcher();

  std::optional<double> stop_after_s_;
  std::string limit_;  ///< what set it
  std::chrono::steady_clock::time_point start_;
  // A thread that shows whether the process was stopped meanwhile.
  std::thread pulse_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool end_ = false;
};

/// "90", "90s", "15m", "2h", "1h30m" in seconds. Throws Error (kUsage) naming
/// these forms.
double parse_duration(std::string_view text);

/// Seconds until `before_s` ahead of the end of the scheduler's time limit,
/// which Slurm gives in SLURM_JOB_END_TIME. Throws Error (kUsage) where there
/// is none.
double seconds_until_limit(double before_s);

}  // namespace osdn::train
