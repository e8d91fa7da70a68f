#include "osdn/report/rate_meter.h"

namespace osdn::report {

void RateMeter::sample(double now_s, std::int64_t count) {
  // Samples closer than a hundredth of the window are one sample, so that a
  // caller which counts single items does not fill memory.
  if (samples_.size() >= 2 &&
      now_s - samples_[samples_.size() - 2].time_s < window_s_ / 100) {
    samples_.back() = {now_s, count};
  } else {
    samples_.push_back({now_s, count});
  }
  // The oldest one kept is the last that is older than the window.
  while (samples_.size() > 2 && samples_[1].time_s <= now_s - window_s_) {
    samples_.pop_front();
  }
}

std::optional<double> RateMeter::rate() const {
  if (samples_.empty()) {
    return std::nullopt;
  }
  const Sample& first = samples_.front();
  const Sample& last = samples_.back();
  if (last.time_s <= first.time_s) {
    return std::nullopt;
  }
  return static_cast<double>(last.count - first.count) /
         (last.time_s - first.time_s);
}

}  // namespace osdn::report
