#pragma once
// Things made ahead by a thread of its own, handed out in order.

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace osdn::data {

/// `make` gives the next thing, nothing at the end, or throws; after either of
/// these it is not called again. At most `depth` things wait; with depth 0
/// there is no thread and each is made when it is asked for.
template <typename T>
class Prefetcher {
 public:
  Prefetcher(std::size_t depth, std::function<std::optional<T>()> make)
      : depth_(depth), make_(std::move(make)) {
    if (depth_ > 0) {
      thread_ = std::thread([this] { run(); });
    }
  }
  ~Prefetcher() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) {
      thread_.join();
    }
  }
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// The next thing, nothing at the end; rethrows what make() threw once all
  /// that was made before is handed out.
  std::optional<T> next() {
    std::unique_lock lock(mutex_);
    if (depth_ == 0 && !ended_) {
      make_one(lock);
    }
    changed_.wait(lock, [this] { return !ready_.empty() || ended_; });
    if (!ready_.empty()) {
      std::optional<T> thing(std::move(ready_.front()));
      ready_.pop_front();
      lock.unlock();
      changed_.notify_all();
      return thing;
    }
    if (fault_) {
      std::rethrow_exception(fault_);
    }
    return std::nullopt;
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (!stop_ && !ended_) {
      if (ready_.size() >= depth_) {
        changed_.wait(lock, [this] { return stop_ || ready_.size() < depth_; });
        continue;
      }
      make_one(lock);
      changed_.notify_all();
    }
  }

  // Makes without the lock, so that next() is not kept waiting.
  void make_one(std::unique_lock<std::mutex>& lock) {
    lock.unlock();
    std::optional<T> thing;
    std::exception_ptr fault;
    try {
      thing = make_();
    } catch (...) {
      fault = std::current_exception();
    }
    lock.lock();
    if (thing) {
      ready_.push_back(std::move(*thing));
    } else {
      fault_ = fault;
      ended_ = true;
    }
  }

  const std::size_t depth_;
  const std::function<std::optional<T>()> make_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<T> ready_;
  std::exception_ptr fault_;
  bool ended_ = false;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace osdn::data
