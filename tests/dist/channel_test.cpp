#include "osdn/dist/channel.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <string>
#include <thread>

#include "osdn/core/utf8.h"

namespace osdn::dist {
namespace {

Message sample() {
  return {.kind = MessageKind::kAlive,
          .rank = 70000,
          .count = 0x0123456789abcdefULL,
          .sequence = 1ULL << 63,
          .waiting = true,
          .text = "step 17",
          .host = "node7"};
}

class ChannelPair : public testing::Test {
 protected:
  ChannelPair() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
                           0, ends.data()),
              0);
    raw = Socket(ends[0]);
    channel.emplace(Socket(ends[1]));
  }
  void send_raw(std::string_view bytes) const {
    EXPECT_EQ(::send(raw.descriptor(), bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
  }

  Socket raw;  ///< the other end
  std::optional<Channel> channel;
};

TEST(Message, comes_back_as_it_was) {
  for (int kind = 1; kind <= static_cast<int>(MessageKind::kLeave); ++kind) {
    Message message = sample();
    message.kind = static_cast<MessageKind>(kind);
    const std::string wire = encode(message);
    EXPECT_EQ(decode(std::string_view(wire).substr(4)), message);
  }
}

TEST(Message, what_is_none_is_not_taken_for_one) {
  const std::string wire = encode(sample());
  const std::string body = wire.substr(4);
  for (std::size_t size = 0; size < body.size(); ++size) {
    EXPECT_FALSE(decode(std::string_view(body).substr(0, size))) << size;
  }
  EXPECT_FALSE(decode(body + "x"));
  std::string kind = body;
  kind[0] = 0;
  EXPECT_FALSE(decode(kind));
  kind[0] = 99;
  EXPECT_FALSE(decode(kind));
}

TEST(Message, long_texts_are_cut_between_characters) {
  Message message = sample();
  message.text.clear();
  for (int i = 0; i < 3000; ++i) message.text += "\xe2\x82\xac";  // 9000 bytes
  const std::string wire = encode(message);
  EXPECT_LE(wire.size(), kMaxMessageBytes);
  const auto back = decode(std::string_view(wire).substr(4));
  ASSERT_TRUE(back);
  EXPECT_FALSE(first_invalid_utf8(back->text));
  EXPECT_GT(back->text.size(), kMaxTextBytes - 3);
  EXPECT_TRUE(message.text.starts_with(back->text));
}

TEST_F(ChannelPair, messages_come_whole_out_of_any_pieces) {
  const std::string wire = encode(sample()) + encode({.text = "second"});
  for (std::size_t i = 0; i + 1 < wire.size(); ++i) {
    send_raw(wire.substr(i, 1));
    const auto message = channel->receive();
    EXPECT_EQ(message.has_value(), i + 1 == encode(sample()).size()) << i;
    if (message) {
      EXPECT_EQ(*message, sample());
    }
  }
  send_raw(wire.substr(wire.size() - 1));
  EXPECT_EQ(channel->receive()->text, "second");
  EXPECT_FALSE(channel->receive());
  EXPECT_TRUE(channel->is_open());
}

TEST_F(ChannelPair, what_was_sent_before_the_end_is_still_received) {
  send_raw(encode(sample()) + encode({.text = "last"}) + "\x20");
  raw.close();
  channel->send(sample());  // cannot arrive, and must not lose what came
  EXPECT_EQ(*channel->receive(), sample());
  EXPECT_EQ(channel->receive()->text, "last");
  EXPECT_FALSE(channel->receive());
  EXPECT_FALSE(channel->is_open());
  EXPECT_EQ(channel->why_closed(), "closed");
}

TEST_F(ChannelPair, what_is_no_message_closes_it) {
  send_raw("GET / HTTP/1.1\r\n");
  EXPECT_FALSE(channel->receive());
  EXPECT_FALSE(channel->is_open());
  EXPECT_NE(channel->why_closed(), "closed");
}

TEST_F(ChannelPair, what_does_not_go_out_at_once_goes_later) {
  int sent = 0;
  while (!channel->has_unsent()) {
    channel->send({.text = std::to_string(sent++)});
  }
  channel->send({.text = std::to_string(sent++)});
  Channel other(std::move(raw));
  int received = 0;
  while (received < sent) {
    while (const auto message = other.receive()) {
      EXPECT_EQ(message->text, std::to_string(received++));
    }
    channel->flush();
  }
  EXPECT_FALSE(channel->has_unsent());
}

TEST_F(ChannelPair, last_words_wait_for_their_answer_but_not_for_ever) {
  using Clock = std::chrono::steady_clock;
  channel->send({.kind = MessageKind::kFailure});
  send_raw(encode(sample()));
  await_heard({&*channel}, Clock::now() + std::chrono::milliseconds(50));
  EXPECT_TRUE(channel->is_open());
  // Long after the test's own limit: only the answer can end it.
  send_raw(encode({.kind = MessageKind::kHeard}));
  await_heard({&*channel}, Clock::now() + std::chrono::hours(1));
  raw.close();
  await_heard({&*channel}, Clock::now() + std::chrono::hours(1));
  EXPECT_FALSE(channel->is_open());
}

}  // namespace
}  // namespace osdn::dist
