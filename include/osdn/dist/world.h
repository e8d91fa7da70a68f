#pragma once
// The ranks of a run: who they are, and small things said between them.
//
//   World world;                        // one rank, or joins those of mpirun
//   world.all(text)                     // every rank's text, in rank order
//   world.agree([&] { check(); });      // an error on any rank is one on all
//
// MPI is called from one thread of the World's own, which waits without
// spinning, so that a caller can give up on a call that does not come back.
// Nothing here counts on the other ranks being alive: every call ends in time
// or throws.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "osdn/core/error.h"
#include "osdn/dist/pending.h"
#include "osdn/dist/place.h"
#include "osdn/dist/transport.h"
#include "osdn/dist/watch.h"

namespace osdn::dist {

/// A call to another rank failed. The watch may know better why.
class LinkError : public Error {
 public:
  using Error::Error;
};

/// What all ranks know of: each throws it at the same place and none has to be
/// told. Rank 0's has the message.
class AgreedError : public Error {
 public:
  using Error::Error;
};

class World {
 public:
  /// Joins the ranks that a launcher started, or is one rank alone without
  /// MPI. Until set_timeout() it waits OSDN_START_TIMEOUT seconds for the
  /// others, else 120. Throws Error naming those that have not come when MPI
  /// does not start in that time, and when a launcher started several ranks of
  /// a program that was built without MPI.
  World();
  /// Parts from the others; without waiting for them after a run() that failed.
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  const Place& place() const { return place_; }
  /// How long every call below waits for the others.
  void set_timeout(std::chrono::duration<double> timeout) {
    timeout_ = timeout;
  }
  std::chrono::duration<double> timeout() const { return timeout_; }

  /// Collective: rank 0's text.
  std::string from_first(const std::string& text);
  /// Collective: every rank's text, in rank order.
  std::vector<std::string> all(const std::string& text);
  /// Collective: every rank's numbers (as many on each), in rank order.
  std::vector<std::vector<double>> all_numbers(
      const std::vector<double>& numbers);

  /// Collective: runs `check` everywhere. When it throws on any rank, all throw
  /// an AgreedError that says what and, unless it is the same on all, on which
  /// ranks.
  void agree(const std::function<void()>& check);
  /// Throws AgreedError; every rank calls it at the same place.
  [[noreturn]] void throw_agreed(const std::string& message,
                                 ExitCode code) const;

  /// Runs a rank's work; what it throws, unless it is an AgreedError, is told
  /// to the others before it goes on.
  void run(const std::function<void()>& work);

  /// Collective: from now on the ranks look after each other (watch.h), and
  /// after their launcher, if there is one.
  void start_watch(WatchOptions options);
  /// From now on all ranks come to the same collective calls in step: one that
  /// does not is looked for, not only one that is gone.
  void expect_steps() { in_steps_ = true; }
  /// What this rank works on, and that it fails, for the watch.
  void working(std::string_view on);
  void fail(const std::string& why);

  /// While it lives the thread waits for the other ranks, outside of this
  /// class's calls; as often on every rank.
  class Wait {
   public:
    Wait(World& world, std::string_view what);
    ~Wait();
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

   private:
    World& world_;
  };
  /// Collective: waits for an operation of the transport.
  void wait(Pending& pending);

  /// Data between ranks' memories; null where this rank is alone.
  Transport* transport() { return transport_.get(); }

 private:
  Place place_;
  std::chrono::duration<double> timeout_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Watch> watch_;
  std::uint64_t waits_ = 0;
  bool in_steps_ = false;
  std::string work_;
  bool abandoned_ = false;
};

}  // namespace osdn::dist
