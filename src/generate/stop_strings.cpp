#include "osdn/generate/stop_strings.h"

#include <algorithm>
#include <utility>

#include "osdn/core/error.h"

namespace osdn::generate {

StopStrings::StopStrings(std::vector<std::string> stops,
                         std::string_view pending)
    : stops_(std::move(stops)) {
  for (const std::string& stop : stops_) {
    if (stop.empty()) {
      throw Error("a stop string is empty; every text would end at once",
                  ExitCode::kUsage);
    }
  }
  ready_ = push(pending);
}

std::string StopStrings::push(std::string_view text) {
  std::string out = std::exchange(ready_, {});
  for (const char byte : text) {
    if (stopped_) break;
    pending_ += byte;
    std::size_t stop = 0;
    for (const std::string& s : stops_) {
      if (pending_.ends_with(s)) stop = std::max(stop, s.size());
    }
    stopped_ = stop > 0;
    const std::size_t keep = stopped_ ? stop : longest_beginning();
    out.append(pending_, 0, pending_.size() - keep);
    pending_.erase(0, pending_.size() - keep);
  }
  if (stopped_) pending_.clear();
  return out;
}

/// Of a stop string, at the end of what is pending.
std::size_t StopStrings::longest_beginning() const {
  std::size_t longest = 0;
  for (const std::string& s : stops_) {
    const std::size_t most = std::min(s.size() - 1, pending_.size());
    for (std::size_t n = most; n > longest; --n) {
      if (std::string_view(pending_).substr(pending_.size() - n) ==
          std::string_view(s).substr(0, n)) {
        longest = n;
      }
    }
  }
  return longest;
}

std::string StopStrings::finish() {
  return std::exchange(ready_, {}) + std::exchange(pending_, {});
}

}  // namespace osdn::generate
