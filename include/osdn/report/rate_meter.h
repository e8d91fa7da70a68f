#pragma once
// How fast something counts up, over the recent past rather than since the
// start, so that a slow beginning does not spoil the time left.

#include <cstdint>
#include <deque>
#include <optional>

namespace osdn::report {

class RateMeter {
 public:
  /// Looks back `window_s` seconds.
  explicit RateMeter(double window_s = 30.0) : window_s_(window_s) {}

  /// The count at a moment (seconds on any steady clock). Moments and counts
  /// do not fall.
  void sample(double now_s, std::int64_t count);

  /// Units a second over the window; nothing before two different moments.
  std::optional<double> rate() const;

 private:
  struct Sample {
    double time_s;
    std::int64_t count;
  };
  double window_s_;
  std::deque<Sample> samples_;
};

}  // namespace osdn::report
