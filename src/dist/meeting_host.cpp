// Rank 0's side of the meeting.

#include <sys/resource.h>

#include <algorithm>
#include <list>
#include <map>
#include <utility>

#include "meeting.h"
#include "osdn/core/concat.h"
#include "osdn/core/error.h"

namespace osdn::dist {
namespace {

/// Each rank is one descriptor here; the usual soft limit of 1,024 is below
/// what large runs need.
void allow_descriptors(std::uint64_t more) {
  rlimit limit{};
  constexpr std::uint64_t kOthers = 512;
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
      limit.rlim_cur < more + kOthers) {
    limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, more + kOthers);
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
}

class Host {
 public:
  Host(const WatchOptions& options, const Listener& listener,
       const Invitation& invitation)
      : options_(options), listener_(listener), invitation_(invitation) {}

  std::vector<Seat> gather() {
    try {
      gather_all();
    } catch (const Error& error) {
      tell_all({.kind = MessageKind::kFailure,
                .text = error.what(),
                .host = options_.host});
      await_heard(joined(), after(Deadlines(options_.timeout).brief));
      throw;
    }
    tell_all({.kind = MessageKind::kReady});
    std::vector<Seat> seats;
    for (auto& [rank, seat] : seats_) seats.push_back(std::move(seat));
    return seats;
  }

 private:
  void gather_all() {
    const TimePoint until = after(options_.timeout);
    while (static_cast<int>(seats_.size()) + 1 < options_.size) {
      std::vector<Channel*> channels = joined();
      for (Channel& channel : strangers_) channels.push_back(&channel);
      wait_for_any(channels, listener_.socket.descriptor(), until);
      take_connections();
      hear_strangers();
      hear_joined();
      if (std::chrono::steady_clock::now() >= until) throw not_all_came();
    }
  }

  void take_connections() {
    // Those that only hold a connection open must not use up the descriptors.
    const std::size_t most = 64 + 4 * static_cast<std::size_t>(options_.size);
    while (auto socket = accept_from(listener_.socket)) {
      strangers_.emplace_back(std::move(*socket));
      if (strangers_.size() > most) strangers_.pop_front();
    }
  }

  void hear_strangers() {
    for (auto it = strangers_.begin(); it != strangers_.end();) {
      it = hear_stranger(*it) ? std::next(it) : strangers_.erase(it);
    }
  }

  /// False when it is none any more: it has joined, or is to be dropped.
  bool hear_stranger(Channel& channel) {
    channel.flush();
    while (auto message = channel.receive()) {
      if (!is_of_this_run(*message)) return false;
      if (message->kind == MessageKind::kJoin) {
        seat(*message, std::move(channel));
        return false;
      }
      channel.send({.kind = MessageKind::kWelcome, .text = invitation_.token});
    }
    return channel.is_open();
  }

  bool is_of_this_run(const Message& message) const {
    return (message.kind == MessageKind::kHello ||
            message.kind == MessageKind::kJoin) &&
           message.text == invitation_.token && message.rank > 0 &&
           message.rank < static_cast<std::uint32_t>(options_.size);
  }

  void seat(const Message& join, Channel channel) {
    const int rank = static_cast<int>(join.rank);
    const auto [found, is_new] =
        seats_.try_emplace(rank, Seat{rank, join.host, std::move(channel)});
    if (!is_new) {
      throw Error(concat("two processes say that they are rank ", rank,
                         " (hosts ", found->second.host, " and ", join.host,
                         "); each rank is to be started once"));
    }
  }

  void hear_joined() {
    for (auto& [rank, seat] : seats_) {
      while (seat.channel.receive()) {
      }
      if (!seat.channel.is_open()) {
        throw Error(concat("rank ", rank, " (host ", seat.host,
                           ") ended while the ranks were connecting: its "
                           "connection is ",
                           seat.channel.why_closed()));
      }
    }
  }

  Error not_all_came() const {
    std::string missing;
    for (int rank = 1; rank < options_.size; ++rank) {
      if (!seats_.contains(rank)) {
        missing += concat(missing.empty() ? "" : ", ", rank);
      }
    }
    std::string tried;
    for (const InterfaceAddress& one : invitation_.addresses) {
      tried += concat(tried.empty() ? "" : ", ", one.address,
                      one.interface.empty() ? "" : " (" + one.interface + ")");
    }
    return Error(concat(
        missing.find(',') == std::string::npos ? "rank " : "ranks ", missing,
        " did not connect to rank 0 (host ", options_.host, ") within ",
        options_.timeout.count(), " s; it can be reached at port ",
        invitation_.port, " of: ", tried, "; ", address_advice()));
  }

  void tell_all(const Message& message) {
    for (Channel* channel : joined()) channel->send(message);
  }

  std::vector<Channel*> joined() {
    std::vector<Channel*> channels;
    for (auto& [rank, seat] : seats_) channels.push_back(&seat.channel);
    return channels;
  }

  const WatchOptions& options_;
  const Listener& listener_;
  const Invitation& invitation_;
  std::list<Channel> strangers_;  ///< connected, and not known to be of the run
  std::map<int, Seat> seats_;
};

}  // namespace

std::vector<Seat> host_meeting(const WatchOptions& options,
                               const Listener& listener,
                               const Invitation& invitation) {
  allow_descriptors(2 * static_cast<std::uint64_t>(options.size));
  return Host(options, listener, invitation).gather();
}

}  // namespace osdn::dist
