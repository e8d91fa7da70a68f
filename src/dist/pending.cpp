#include "osdn/dist/pending.h"

#include "osdn/core/concat.h"
#include "osdn/core/error.h"

namespace osdn::dist {

void Pending::wait(std::chrono::duration<double> timeout) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, timeout, [this] { return done_; })) {
    // Later on the watch over the ranks is quicker, and names the one.
    throw Error(concat("the other ranks did not answer within ",
                       timeout.count(),
                       " s of the start, when none can be named yet (is a "
                       "process stopped, a host out of reach?): ",
                       what_));
  }
  if (error_) std::rethrow_exception(error_);
}

void Pending::finish(std::exception_ptr error) {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
    error_ = std::move(error);
  }
  changed_.notify_all();
}

}  // namespace osdn::dist
