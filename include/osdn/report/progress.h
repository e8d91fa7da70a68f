#pragma once
// Progress of a long job: count, total, rate and time left.
//
//   Progress progress({.label = "tokenize", .unit = "B", .total = bytes});
//   progress.add(n);            // from any thread
//   progress.finish();          // "tokenize 1.23GB in 0:42, 29.3MB/s"

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "osdn/report/live_line.h"
#include "osdn/report/rate_meter.h"

namespace osdn::report {

struct ProgressOptions {
  std::string label{};     ///< what is being done
  std::string unit{};      ///< of the count: "B", " tokens"
  std::int64_t total = 0;  ///< 0: not known
  Stream stream = Stream::kStdout;
  double terminal_interval_s = 0.1;  ///< between redraws on a terminal
  double plain_interval_s = 10.0;    ///< between lines elsewhere
  double quiet_s = 0;                ///< no status before so many seconds
};

/// Safe from several threads.
class Progress {
 public:
  explicit Progress(ProgressOptions options);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Counts `n` more.
  void add(std::int64_t n);
  /// The count so far, and words to show after it ("3 of 7 files").
  void update(std::int64_t count, std::string_view detail = {});
  /// The last line, with the mean rate. Without it (an exception) the status
  /// stays as it was.
  void finish();

  std::int64_t count() const;

 private:
  double elapsed_s() const;
  void show_locked();

  const ProgressOptions options_;
  const std::chrono::steady_clock::time_point start_;
  mutable std::mutex mutex_;
  LiveLine line_;
  RateMeter meter_;
  std::int64_t count_ = 0;
  std::string detail_;
};

/// The status line: "label 12.3% 1.23M/10.0M tokens, 456k tokens/s, 0:19 left".
/// `rate` in units a second; what is not known is left out.
std::string format_progress(const ProgressOptions& options, std::int64_t count,
                            std::optional<double> rate,
                            std::string_view detail);

}  // namespace osdn::report
