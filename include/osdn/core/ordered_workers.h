#pragma once
// Work on all cores with results in the order in which it was handed in.

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace osdn {

/// The caller bounds memory: it submits, and takes when enough is pending.
template <typename In, typename Out>
class OrderedWorkers {
 public:
  OrderedWorkers(std::size_t threads, std::function<Out(In&&)> work)
      : work_(std::move(work)) {
    for (std::size_t i = 0; i < threads; ++i) {
      threads_.emplace_back([this] { run(); });
    }
  }
  /// What is pending is dropped.
  ~OrderedWorkers() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) {
      thread.join();
    }
  }
  OrderedWorkers(const OrderedWorkers&) = delete;
  OrderedWorkers& operator=(const OrderedWorkers&) = delete;

  void submit(In in) {
    Task task([this, input = std::move(in)]() mutable {
      return work_(std::move(input));
    });
    results_.push_back(task.get_future());
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    wake_.notify_one();
  }

  std::size_t pending() const { return results_.size(); }

  /// Waits for the oldest result; rethrows what its work threw.
  Out take() {
    std::future<Out> result = std::move(results_.front());
    results_.pop_front();
    return result.get();
  }

 private:
  using Task = std::packaged_task<Out()>;

  void run() {
    for (;;) {
      Task task;
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [this] { return stop_ || !tasks_.empty(); });
        if (stop_) {
          return;
        }
        task = std::move(tasks_.front());
        tasks_.pop_front();
      }
      task();
    }
  }

  const std::function<Out(In&&)> work_;
  std::deque<std::future<Out>> results_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Task> tasks_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace osdn
