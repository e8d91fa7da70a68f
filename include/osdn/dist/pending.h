#pragma once
// An operation between ranks that is on its way.

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <vector>

namespace osdn::dist {

class Pending {
 public:
  explicit Pending(std::string what) : what_(std::move(what)) {}

  /// Returns when it is done; rethrows its error. Throws Error naming it, and
  /// the ranks that it lacks, when it is not done in time; its memory must then
  /// stay untouched.
  void wait(std::chrono::duration<double> timeout);
  /// The same, but false when it is not done in time.
  bool wait_for(std::chrono::duration<double> timeout);

  /// By the thread that does it.
  void finish(std::exception_ptr error = {});
  /// By that thread: these ranks have not done their part.
  void lacks(std::vector<int> ranks);
  const std::string& what() const { return what_; }

 private:
  const std::string what_;  ///< "gradients of bucket 3"
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::vector<int> lacking_;
  std::exception_ptr error_;
};

}  // namespace osdn::dist
