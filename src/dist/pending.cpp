#include "osdn/dist/pending.h"

#include <utility>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"

namespace osdn::dist {

bool Pending::wait_for(std::chrono::duration<double> timeout) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, timeout, [this] { return done_; })) return false;
  if (error_) std::rethrow_exception(error_);
  return true;
}

void Pending::wait(std::chrono::duration<double> timeout) {
  if (wait_for(timeout)) return;
  const std::lock_guard lock(mutex_);
  std::string who;
  for (const int rank : lacking_) {
    who += concat(who.empty() ? "rank " : ", rank ", rank);
  }
  // Later on the watch over the ranks is quicker, and knows more.
  throw Error(concat(who.empty() ? "the other ranks" : who,
                     " did not answer within ", timeout.count(),
                     " s (is a process stopped, a host out of reach, a disk "
                     "silent?): ",
                     what_));
}

void Pending::lacks(std::vector<int> ranks) {
  const std::lock_guard lock(mutex_);
  lacking_ = std::move(ranks);
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
