// The other ranks' side of the meeting.

#include <algorithm>
#include <list>
#include <utility>

#include "meeting.h"
#include "osdn/core/concat.h"
#include "osdn/core/error.h"

namespace osdn::dist {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = Deadlines::Seconds;

/// An address that does not answer is left to answer later, and the next one
/// tried beside it.
constexpr Seconds kNextAddress{0.25};
/// Until all addresses are tried again, when each has failed.
constexpr Seconds kNextRound{0.5};

/// One connection that may become the one to rank 0.
struct Attempt {
  std::size_t address;  ///< which one
  Channel channel;
};

class Guest {
 public:
  Guest(const WatchOptions& options, const Invitation& invitation)
      : options_(options),
        invitation_(invitation),
        why_(invitation.addresses.size(), "not tried") {
    // Ranks on rank 0's own host need no network.
    if (invitation.host == options.host) {
      std::stable_partition(
          invitation_.addresses.begin(), invitation_.addresses.end(),
          [](const InterfaceAddress& one) { return one.interface == "lo"; });
    }
  }

  Seat join() {
    const TimePoint until = after(options_.timeout);
    TimePoint next = Clock::now();
    while (Clock::now() < until) {
      const bool all_failed = attempts_.empty() && next_address_ > 0;
      if (all_failed || Clock::now() >= next) next = after(start_next());
      wait_for_any(pending(), -1, std::min(next, until));
      if (auto channel = welcomed()) {
        channel->send(message(MessageKind::kJoin));
        return Seat{0, invitation_.host, std::move(*channel)};
      }
    }
    throw unreachable();
  }

 private:
  Message message(MessageKind kind) const {
    return {.kind = kind,
            .rank = static_cast<std::uint32_t>(options_.rank),
            .text = invitation_.token,
            .host = options_.host};
  }

  /// Begins with the next address; when that may be done again.
  Seconds start_next() {
    if (next_address_ == invitation_.addresses.size()) {
      next_address_ = 0;
      return kNextRound;
    }
    const std::size_t address = next_address_++;
    // One that is still without an answer goes on.
    const bool under_way = std::any_of(
        attempts_.begin(), attempts_.end(),
        [&](const Attempt& attempt) { return attempt.address == address; });
    if (under_way) return Seconds(0);
    const std::string& name = invitation_.addresses[address].address;
    for (const Endpoint& to : resolve(name, invitation_.port, why_[address])) {
      Socket socket = start_connect(to, why_[address]);
      if (!socket.is_open()) continue;
      why_[address] = "no answer";
      attempts_.push_back({address, Channel(std::move(socket))});
      // Leaves as soon as the connection is made.
      attempts_.back().channel.send(message(MessageKind::kHello));
    }
    return attempts_.empty() ? Seconds(0) : kNextAddress;
  }

  std::vector<Channel*> pending() {
    std::vector<Channel*> channels;
    for (Attempt& attempt : attempts_) channels.push_back(&attempt.channel);
    return channels;
  }

  /// The connection that rank 0 has answered.
  std::optional<Channel> welcomed() {
    for (auto it = attempts_.begin(); it != attempts_.end();) {
      if (is_welcomed(*it)) return std::move(it->channel);
      it = it->channel.is_open() ? std::next(it) : attempts_.erase(it);
    }
    return std::nullopt;
  }

  /// Otherwise nothing has come yet, or it is closed and why_ says why.
  bool is_welcomed(Attempt& attempt) {
    Channel& channel = attempt.channel;
    channel.flush();
    const bool sent = !channel.has_unsent() && channel.why_closed().empty();
    if (const auto answer = channel.receive()) {
      if (answer->kind == MessageKind::kWelcome &&
          answer->text == invitation_.token) {
        return true;
      }
      channel.close("another run answered");
    }
    if (!channel.is_open()) {
      why_[attempt.address] =
          sent ? concat("is not rank 0 of this run: ", channel.why_closed())
               : channel.why_closed();
    }
    return false;
  }

  Error unreachable() const {
    std::string tried;
    for (std::size_t i = 0; i < why_.size(); ++i) {
      const InterfaceAddress& one = invitation_.addresses[i];
      tried += concat(tried.empty() ? "" : ", ", one.address, " (",
                      one.interface.empty() ? "" : one.interface + ": ",
                      why_[i], ")");
    }
    return Error(concat("rank ", options_.rank, " (host ", options_.host,
                        ") cannot reach rank 0 (host ", invitation_.host,
                        ") within ", options_.timeout.count(),
                        " s; tried port ", invitation_.port, " of: ", tried,
                        "; ", address_advice()));
  }

  const WatchOptions& options_;
  Invitation invitation_;
  std::vector<std::string> why_;  ///< each address failed
  std::list<Attempt> attempts_;
  std::size_t next_address_ = 0;
};

/// Until rank 0 says that all are there.
void await_ready(Channel& channel, const std::string& host, Seconds limit) {
  const TimePoint until = after(limit);
  while (Clock::now() < until && channel.is_open()) {
    wait_for_any({&channel}, -1, until);
    channel.flush();
    const auto message = channel.receive();
    if (!message) continue;
    if (message->kind == MessageKind::kReady) return;
    if (message->kind == MessageKind::kFailure) {
      channel.send({.kind = MessageKind::kHeard});
      throw Error(message->text);
    }
  }
  throw Error(concat("rank 0 (host ", host, ") ",
                     channel.is_open()
                         ? "has not said that all ranks are connected"
                         : "ended while the ranks were connecting"));
}

}  // namespace

Seat join_meeting(const WatchOptions& options, const Invitation& invitation) {
  Seat seat = Guest(options, invitation).join();
  // Rank 0 waits as long for the last to come, and then has to tell.
  const Deadlines deadlines(options.timeout);
  await_ready(seat.channel, invitation.host,
              deadlines.timeout + 2 * deadlines.brief);
  return seat;
}

}  // namespace osdn::dist
