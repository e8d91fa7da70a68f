#pragma once
// Looks after the ranks of a run: when one of them fails, ends, hangs or can no
// longer be reached, every rank says which and why and ends within a deadline.
//
// It does not go through MPI or NCCL, whose calls may be what hangs. Every rank
// holds one TCP connection to rank 0; a thread of its own sends a sign of life
// over it and looks for the others'. What is noticed, and how soon:
//
//   a rank that throws               at once: it says so (fail)
//   a process that is killed         at once: its connection closes
//   a machine or link that is gone   without a sign of life, in time for all to
//   a process that is stopped        have ended `timeout` after it happened
//   a thread that hangs              in that time too, when others wait for
//                                    it (waiting) and it makes no progress
//   an operation that hangs          the same: all have come to it, and it does
//                                    not end
//
// Rank 0 passes on what it is told. When it is rank 0 that is gone, each of the
// others notices by itself. Deadlines are a little shorter than `timeout`: a
// tenth of it, at most 2 s, is for the last words to arrive, and a twentieth,
// at most 1 s, passes between signs of life.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace osdn::dist {

/// Which rank failed, and why.
struct RankFailure {
  int rank = 0;
  std::string host;
  std::string why;  ///< "was killed or crashed: its connection closed", ...
};

/// "rank 2 (host node7): why", for a log line or a message.
std::string describe(const RankFailure& failure);

struct WatchOptions {
  int rank = 0;
  int size = 1;
  std::string host;  ///< this rank's, for messages
  std::chrono::duration<double> timeout{60};
  /// At rank 0: the address, the name or the network interface by which the
  /// others reach its host; empty: every address of its interfaces and its host
  /// name, tried in turn. The environment variable OSDN_ADDRESS stands above
  /// it.
  std::string address;
  /// Called once, on the watch's thread, when any rank has failed; not for this
  /// rank's own fail(). It is to end the process; where it returns, the process
  /// goes on unwatched. It must not destroy the Watch, whose fail() and leave()
  /// do nothing there.
  std::function<void(const RankFailure&)> on_failure;
  /// Looked at with every sign of life: this rank's own trouble that no one
  /// else reports (an asynchronous error of NCCL), empty for none. It must not
  /// block. May be null.
  std::function<std::string()> look;
};

class Watch {
 public:
  /// Collective. `broadcast` gives every rank the text of rank 0 (how to reach
  /// it). Returns when all are connected; throws Error naming the ranks that
  /// are not, the addresses that were tried and what to set, after `timeout`.
  /// With one rank there is nothing to connect, and only `look` to call;
  /// without it no thread.
  Watch(const WatchOptions& options,
        const std::function<std::string(const std::string&)>& broadcast);
  /// Without leave() the others take it for a crash.
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// What this rank works on now ("step 17"); cheap. The message says it,
  /// should the rank hang; and it is progress: one that others wait for may
  /// take as long as it likes if it says so within every `timeout`.
  void working(std::string_view on);
  /// This rank now waits for all others in its n-th collective operation, n
  /// given by `sequence`, until the next working(). The ranks whose sequence
  /// stays behind, without progress, are the ones that hang.
  void waiting(std::string_view in, std::uint64_t sequence);

  /// This rank fails: all others hear why, on_failure is not called here.
  /// Returns when the others know, or soon after when they cannot be told.
  void fail(const std::string& why);
  /// This rank ends well; its closed connection is no failure. Returns when all
  /// ranks have left, or one has failed.
  void leave();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace osdn::dist
