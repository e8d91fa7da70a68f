#pragma once
// What the ranks' watches say to each other, and the connection it goes over.
//
// A message on the wire is the length of what follows (4 bytes, at most
// kMaxMessageBytes), then kind (1), rank (4), count (8), sequence (8), waiting
// (1), and text and host, each with its length (2) before it; numbers little
// endian.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "osdn/dist/socket.h"

namespace osdn::dist {

inline constexpr std::size_t kMaxMessageBytes = 8192;
/// Longer texts are cut, between characters of UTF-8.
inline constexpr std::size_t kMaxTextBytes = 4000;
inline constexpr std::size_t kMaxHostBytes = 255;

enum class MessageKind : std::uint8_t {
  kHello = 1,  ///< rank, host, token in text: who wants to join
  kWelcome,    ///< token in text: the answer of the right rank 0
  kJoin,       ///< over this connection, of those that were welcomed
  kReady,      ///< all have joined
  kAlive,      ///< sign of life: count, sequence, waiting, and on what in text
  kFailure,    ///< rank, host and why in text
  kHeard,      ///< the answer to kFailure and kLeave
  kLeave,      ///< an orderly end: of this rank, or from rank 0 of all
};

struct Message {
  MessageKind kind = MessageKind::kAlive;
  std::uint32_t rank = 0;
  std::uint64_t count = 0;
  std::uint64_t sequence = 0;
  bool waiting = false;
  std::string text{};
  std::string host{};

  bool operator==(const Message&) const = default;
};

/// With the length before it.
std::string encode(const Message& message);
/// What stands after the length; nothing where that is no message.
std::optional<Message> decode(std::string_view body);

/// Messages over one connection, never waiting for it.
class Channel {
 public:
  explicit Channel(Socket socket) : socket_(std::move(socket)) {}

  int descriptor() const { return socket_.descriptor(); }
  const Socket& socket() const { return socket_; }
  bool is_open() const { return socket_.is_open(); }
  /// Why it is not open: "closed" by the other side or its end, or what broke
  /// it.
  const std::string& why_closed() const { return why_closed_; }
  /// Something that was sent is still on its way out.
  bool has_unsent() const { return !unsent_.empty(); }

  /// Sends as much as goes at once; flush() sends the rest.
  void send(const Message& message);
  void flush();
  /// The next whole message that has come; nothing when there is none. What is
  /// no message closes the channel.
  std::optional<Message> receive();
  void close(const std::string& why);

 private:
  bool read_some();
  std::optional<Message> take();

  Socket socket_;
  std::string received_;
  std::string unsent_;
  std::string why_closed_;
};

using TimePoint = std::chrono::steady_clock::time_point;

/// poll() over channels and one descriptor more (-1 for none) until one of them
/// has something, or `until`. A signal may end it early.
void wait_for_any(const std::vector<Channel*>& channels, int descriptor,
                  TimePoint until);

/// Reads until every channel has answered what was sent with kHeard, or with a
/// failure of its own (which is answered), or is closed; to `until` at most.
/// A connection that is closed with something unread in it would lose what was
/// sent last.
void await_heard(std::vector<Channel*> channels, TimePoint until);

}  // namespace osdn::dist
