#include "osdn/checkpoint/write_progress.h"

#include "osdn/core/concat.h"

namespace osdn::checkpoint {

void WriteProgress::at(const char* doing, const std::filesystem::path& what) {
  const std::lock_guard lock(mutex_);
  ++now_.count;
  now_.at = concat(doing, " ", what.string());
}

void WriteProgress::moved() {
  const std::lock_guard lock(mutex_);
  ++now_.count;
}

WriteProgress::Now WriteProgress::now() const {
  const std::lock_guard lock(mutex_);
  return now_;
}

}  // namespace osdn::checkpoint
