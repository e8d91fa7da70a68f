#include "osdn/dist/channel.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "osdn/core/concat.h"

namespace osdn::dist {
namespace {

void put(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) {
    out += static_cast<char>((value >> (8 * i)) & 0xff);
  }
}

/// At most `limit` bytes, with no character of UTF-8 cut in two.
std::string_view cut(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return text;
  while (limit > 0 &&
         (static_cast<unsigned char>(text[limit]) & 0xc0) == 0x80) {
    --limit;
  }
  return text.substr(0, limit);
}

/// Takes numbers and texts off the front; ok() turns false at the end.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  std::uint64_t number(int bytes) {
    std::uint64_t value = 0;
    const std::string_view taken = take(static_cast<std::size_t>(bytes));
    for (std::size_t i = 0; i < taken.size(); ++i) {
      value |= std::uint64_t{static_cast<unsigned char>(taken[i])} << (8 * i);
    }
    return value;
  }
  std::string text() { return std::string(take(number(2))); }
  bool all_taken() const { return ok_ && bytes_.empty(); }

 private:
  std::string_view take(std::size_t size) {
    ok_ = ok_ && size <= bytes_.size();
    if (!ok_) return {};
    const std::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return taken;
  }

  std::string_view bytes_;
  bool ok_ = true;
};

bool would_block() {
  return errno == EAGAIN || errno == EWOULDBLOCK;
}

std::string broken() {
  return errno == ECONNRESET || errno == EPIPE ? "closed"
                                               : std::strerror(errno);
}

}  // namespace

std::string encode(const Message& message) {
  std::string body;
  put(body, static_cast<std::uint64_t>(message.kind), 1);
  put(body, message.rank, 4);
  put(body, message.count, 8);
  put(body, message.sequence, 8);
  put(body, message.waiting ? 1 : 0, 1);
  for (const std::string_view text :
       {cut(message.text, kMaxTextBytes), cut(message.host, kMaxHostBytes)}) {
    put(body, text.size(), 2);
    body += text;
  }
  std::string out;
  put(out, body.size(), 4);
  return out + body;
}

std::optional<Message> decode(std::string_view body) {
  Reader reader(body);
  Message message;
  const std::uint64_t kind = reader.number(1);
  message.kind = static_cast<MessageKind>(kind);
  message.rank = static_cast<std::uint32_t>(reader.number(4));
  message.count = reader.number(8);
  message.sequence = reader.number(8);
  const std::uint64_t waiting = reader.number(1);
  message.waiting = waiting == 1;
  message.text = reader.text();
  message.host = reader.text();
  const bool known = kind >= static_cast<std::uint64_t>(MessageKind::kHello) &&
                     kind <= static_cast<std::uint64_t>(MessageKind::kLeave);
  if (!reader.all_taken() || !known || waiting > 1) return std::nullopt;
  return message;
}

void Channel::send(const Message& message) {
  if (!is_open()) return;
  unsent_ += encode(message);
  flush();
}

void Channel::flush() {
  while (is_open() && !unsent_.empty()) {
    const ssize_t sent =
        ::send(descriptor(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      unsent_.erase(0, static_cast<std::size_t>(sent));
    } else if (would_block()) {
      return;
    } else if (errno != EINTR) {
      // What the other side said last may still wait to be read: receive()
      // finds the end of it and closes.
      if (why_closed_.empty()) why_closed_ = broken();
      unsent_.clear();
    }
  }
}

std::optional<Message> Channel::receive() {
  for (;;) {
    if (auto message = take()) return message;
    if (!is_open() || !read_some()) return std::nullopt;
  }
}

/// False when there is nothing more now.
bool Channel::read_some() {
  std::array<char, 16384> bytes;
  const ssize_t size = ::recv(descriptor(), bytes.data(), bytes.size(), 0);
  if (size > 0) {
    received_.append(bytes.data(), static_cast<std::size_t>(size));
  } else if (size == 0) {
    close("closed");
  } else if (would_block()) {
    return false;
  } else if (errno != EINTR) {
    close(broken());
  }
  return true;
}

std::optional<Message> Channel::take() {
  if (received_.size() < 4) return std::nullopt;
  const std::uint64_t size = Reader(received_).number(4);
  if (size <= kMaxMessageBytes && received_.size() - 4 < size) {
    return std::nullopt;
  }
  auto message = size <= kMaxMessageBytes
                     ? decode(std::string_view(received_).substr(4, size))
                     : std::nullopt;
  if (message) {
    received_.erase(0, 4 + size);
  } else {
    close("what it sent is no message");
    received_.clear();
  }
  return message;
}

void Channel::close(const std::string& why) {
  if (is_open() && why_closed_.empty()) why_closed_ = why;
  socket_.close();
  unsent_.clear();
}

void wait_for_any(const std::vector<Channel*>& channels, int descriptor,
                  TimePoint until) {
  std::vector<pollfd> polled;
  if (descriptor >= 0) polled.push_back({descriptor, POLLIN, 0});
  for (const Channel* channel : channels) {
    if (!channel->is_open()) continue;
    const int events = POLLIN | (channel->has_unsent() ? POLLOUT : 0);
    polled.push_back({channel->descriptor(), static_cast<short>(events), 0});
  }
  using Milliseconds = std::chrono::milliseconds;
  const auto left =
      std::chrono::ceil<Milliseconds>(until - std::chrono::steady_clock::now());
  const auto wait = std::clamp(left, Milliseconds(0), Milliseconds(60'000));
  ::poll(polled.data(), polled.size(), static_cast<int>(wait.count()));
}

void await_heard(std::vector<Channel*> channels, TimePoint until) {
  for (;;) {
    std::erase_if(channels, [](Channel* channel) {
      channel->flush();
      bool heard = false;
      while (auto message = channel->receive()) {
        const bool failure = message->kind == MessageKind::kFailure;
        if (failure) channel->send({.kind = MessageKind::kHeard});
        heard = heard || failure || message->kind == MessageKind::kHeard;
      }
      return heard || !channel->is_open();
    });
    if (channels.empty() || std::chrono::steady_clock::now() >= until) return;
    wait_for_any(channels, -1, until);
  }
}

}  // namespace osdn::dist
