#include "osdn/report/time_left.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace osdn::report {

void Pace::add(double seconds) {
  seconds_.push_back(seconds);
  if (seconds_.size() > keep_) seconds_.pop_front();
}

std::optional<double> Pace::usual() const {
  if (seconds_.empty()) return std::nullopt;
  std::vector<double> sorted(seconds_.begin(), seconds_.end());
  std::sort(sorted.begin(), sorted.end());
  const std::size_t count = sorted.size();
  const std::size_t outer = count < 4 ? (count - 1) / 2 : count / 4;
  const auto first = sorted.cbegin() + static_cast<std::ptrdiff_t>(outer);
  const auto last = sorted.cend() - static_cast<std::ptrdiff_t>(outer);
  return std::accumulate(first, last, 0.0) / static_cast<double>(last - first);
}

std::optional<double> TimeLeft::seconds(const Ahead& ahead) const {
  const std::optional<double> step = steps_.usual();
  if (!step) return std::nullopt;
  return static_cast<double>(ahead.steps) * *step +
         static_cast<double>(ahead.validations) *
             validations_.usual().value_or(0) +
         static_cast<double>(ahead.saves) * saves_.usual().value_or(0);
}

}  // namespace osdn::report
