#pragma once
// How the ranks find each other: rank 0 listens and says where, the others
// connect.
//
// A rank says hello over each connection that it gets, joins over the first
// that answers with the run's token, and closes the rest; so neither a stranger
// at rank 0's port nor one at an address that means another host here (a
// container bridge's) is taken for part of the run. The token keeps runs apart;
// it is no protection against who can read the network.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "osdn/dist/channel.h"
#include "osdn/dist/socket.h"
#include "osdn/dist/watch.h"

namespace osdn::dist {

/// A rank and the connection to it.
struct Seat {
  int rank = 0;
  std::string host{};
  Channel channel;
};

/// Collective: all other ranks at rank 0, rank 0 alone at the others. Returns
/// when all are connected; throws as Watch does.
std::vector<Seat> meet(
    const WatchOptions& options,
    const std::function<std::string(const std::string&)>& broadcast);

/// What rank 0 says about itself to all.
struct Invitation {
  std::string token{};
  std::uint16_t port = 0;
  std::string host{};
  std::vector<InterfaceAddress> addresses{};  ///< interface: "" for a name
};
std::string to_text(const Invitation& invitation);
/// Throws Error with rank 0's own, where it could not listen.
Invitation invitation_from(const std::string& text);

/// Where to say how the other ranks reach rank 0, for messages.
std::string address_advice();

/// Deadlines of a meeting and of a watch.
struct Deadlines {
  using Seconds = std::chrono::duration<double>;
  explicit Deadlines(Seconds given)
      : timeout(given),
        interval(std::min(timeout / 20, Seconds(1))),
        brief(std::min(timeout / 10, Seconds(2))),
        patience(timeout - 3 * interval - brief) {}
  Seconds timeout;
  Seconds interval;  ///< between signs of life
  Seconds brief;     ///< for the last words to arrive
  /// So that all have ended `timeout` after what happened.
  Seconds patience;
};

inline TimePoint after(Deadlines::Seconds time) {
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(time);
}

// The two sides, each in a file of its own.
std::vector<Seat> host_meeting(const WatchOptions& options,
                               const Listener& listener,
                               const Invitation& invitation);
Seat join_meeting(const WatchOptions& options, const Invitation& invitation);

}  // namespace osdn::dist
