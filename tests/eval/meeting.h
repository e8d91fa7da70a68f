#pragma once
// Ranks as threads of one process.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace osdn::test {

/// What Ranks::gather does, as often as all threads call it.
class Meeting {
 public:
  explicit Meeting(int count) : texts_(static_cast<std::size_t>(count)) {}

  std::vector<std::string> gather(int rank, const std::string& mine) {
    std::unique_lock lock(mutex_);
    const std::int64_t round = round_;
    texts_[static_cast<std::size_t>(rank)] = mine;
    if (++arrived_ == texts_.size()) {
      arrived_ = 0;
      ++round_;
      said_ = texts_;
      all_.notify_all();
    }
    all_.wait(lock, [&] { return round_ > round; });
    return said_;
  }

 private:
  std::vector<std::string> texts_, said_;
  std::size_t arrived_ = 0;
  std::int64_t round_ = 0;
  std::mutex mutex_;
  std::condition_variable all_;
};

}  // namespace osdn::test
