// The watch of ranks that are real processes, which are killed, stopped and
// hung. Bounds on time are only upper ones, and far off: what must be noticed
// at once is tried with a time-out that the test would not survive.

#include "osdn/dist/watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "dist/forked_ranks.h"
#include "osdn/core/error.h"
#include "osdn/dist/channel.h"
#include "osdn/dist/socket.h"

namespace osdn::dist {
namespace {

using test::ForkedRanks;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
using Seconds = std::chrono::duration<double>;

constexpr int kFailed = 9;  ///< the exit code of on_failure
/// Would not end before the test's own limit.
constexpr Seconds kNever{600};
/// For what is noticed by a time-out alone; long enough for a busy machine.
constexpr Seconds kSoon{5};

WatchOptions options_of(ForkedRanks& ranks, int rank, int size,
                        Seconds timeout) {
  WatchOptions options;
  options.rank = rank;
  options.size = size;
  options.host = "h" + std::to_string(rank);
  options.timeout = timeout;
  options.on_failure = [&ranks, rank](const RankFailure& failure) {
    ranks.say(rank, describe(failure));
    ::_exit(kFailed);
  };
  return options;
}

auto broadcast_of(ForkedRanks& ranks, int rank) {
  return [&ranks, rank](const std::string& text) {
    return ranks.broadcast(rank, text);
  };
}

/// Leaves a note and stays.
void stay(ForkedRanks& ranks, int rank) {
  ranks.write("up." + std::to_string(rank), "");
  for (;;) ::pause();
}

void await_all(ForkedRanks& ranks, int size) {
  for (int rank = 0; rank < size; ++rank) {
    ranks.await("up." + std::to_string(rank));
  }
}

/// Ends with on_failure, which names `bad` and gives the reason.
void expect_failure_of(ForkedRanks& ranks, int rank, int bad,
                       const testing::Matcher<std::string>& why) {
  EXPECT_EQ(ranks.wait(rank), kFailed);
  EXPECT_THAT(ranks.said(rank),
              AllOf(StartsWith("rank " + std::to_string(bad)), why));
}

class WatchOfRank : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Each, WatchOfRank, testing::Values(0, 1, 2));

TEST_P(WatchOfRank, all_hear_why_it_fails) {
  const int bad = GetParam();
  ForkedRanks ranks(3, [&](ForkedRanks& self, int rank) {
    Watch watch(options_of(self, rank, 3, kNever), broadcast_of(self, rank));
    if (rank != bad) stay(self, rank);
    for (int other = 0; other < 3; ++other) {
      if (other != bad) self.await("up." + std::to_string(other));
    }
    watch.fail("the disk of /data is full");
    self.say(rank, "failed");
  });
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(ranks.wait(rank), rank == bad ? 0 : kFailed) << rank;
    const std::string b = std::to_string(bad);
    EXPECT_EQ(ranks.said(rank), rank == bad
                                    ? "failed"
                                    : "rank " + b + " (host h" + b +
                                          "): the disk of /data is full");
  }
}

TEST_P(WatchOfRank, a_killed_process_is_noticed_at_once) {
  const int bad = GetParam();
  ForkedRanks ranks(3, [&](ForkedRanks& self, int rank) {
    Watch watch(options_of(self, rank, 3, kNever), broadcast_of(self, rank));
    stay(self, rank);
  });
  await_all(ranks, 3);
  ranks.signal(bad, SIGKILL);
  EXPECT_EQ(ranks.wait(bad), -SIGKILL);
  for (int rank = 0; rank < 3; ++rank) {
    if (rank == bad) continue;
    expect_failure_of(ranks, rank, bad, HasSubstr("was killed or crashed"));
  }
}

TEST_P(WatchOfRank, a_stopped_process_is_noticed_and_hears_so_when_it_goes_on) {
  const int bad = GetParam();
  ForkedRanks ranks(3, [&](ForkedRanks& self, int rank) {
    Watch watch(options_of(self, rank, 3, kSoon), broadcast_of(self, rank));
    watch.working("step 17");
    stay(self, rank);
  });
  await_all(ranks, 3);
  ranks.signal(bad, SIGSTOP);
  for (int rank = 0; rank < 3; ++rank) {
    if (rank == bad) continue;
    expect_failure_of(ranks, rank, bad, HasSubstr("no sign of life"));
  }
  ranks.signal(bad, SIGCONT);
  expect_failure_of(ranks, bad, bad, HasSubstr("no sign of life"));
}

TEST_P(WatchOfRank, one_that_never_gets_to_an_operation_is_named) {
  const int bad = GetParam();
  ForkedRanks ranks(3, [&](ForkedRanks& self, int rank) {
    Watch watch(options_of(self, rank, 3, kSoon), broadcast_of(self, rank));
    watch.waiting("the sum of losses", 4);
    watch.working("step 5: backward");
    if (rank != bad) watch.waiting("the sum of gradients", 5);
    stay(self, rank);
  });
  for (int rank = 0; rank < 3; ++rank) {
    expect_failure_of(ranks, rank, bad,
                      AllOf(HasSubstr("hangs"), HasSubstr("step 5: backward"),
                            HasSubstr("the sum of gradients (operation 5)")));
  }
}

TEST_P(WatchOfRank, trouble_that_it_sees_itself_ends_all) {
  const int bad = GetParam();
  ForkedRanks ranks(3, [&](ForkedRanks& self, int rank) {
    WatchOptions options = options_of(self, rank, 3, Seconds(20));
    if (rank == bad) options.look = [] { return "the link is down"; };
    Watch watch(options, broadcast_of(self, rank));
    stay(self, rank);
  });
  for (int rank = 0; rank < 3; ++rank) {
    expect_failure_of(ranks, rank, bad, HasSubstr("the link is down"));
  }
}

TEST_P(WatchOfRank, its_end_without_leave_is_a_failure_of_it) {
  const int bad = GetParam();
  ForkedRanks ranks(3, [&](ForkedRanks& self, int rank) {
    Watch watch(options_of(self, rank, 3, kNever), broadcast_of(self, rank));
    if (rank != bad) stay(self, rank);
    for (int other = 0; other < 3; ++other) {
      if (other != bad) self.await("up." + std::to_string(other));
    }
  });
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(ranks.wait(rank), rank == bad ? 0 : kFailed);
  }
}

TEST(Watch, an_orderly_end_is_no_failure) {
  ForkedRanks ranks(4, [&](ForkedRanks& self, int rank) {
    Watch watch(options_of(self, rank, 4, kNever), broadcast_of(self, rank));
    watch.working("step 1");
    // Not all at the same time; and none before the last.
    std::this_thread::sleep_for(std::chrono::milliseconds(20 * rank));
    self.write("leaving." + std::to_string(rank), "");
    watch.leave();
    for (int other = 0; other < 4; ++other) {
      self.await("leaving." + std::to_string(other));
    }
    self.say(rank, "left");
  });
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(ranks.wait(rank), 0);
    EXPECT_EQ(ranks.said(rank), "left");
  }
}

TEST(Watch, who_waits_to_leave_still_hears_of_a_failure) {
  ForkedRanks ranks(3, [&](ForkedRanks& self, int rank) {
    Watch watch(options_of(self, rank, 3, kNever), broadcast_of(self, rank));
    if (rank == 1) stay(self, rank);
    self.write("up." + std::to_string(rank), "");
    watch.leave();
  });
  await_all(ranks, 3);
  ranks.signal(1, SIGKILL);
  for (const int rank : {0, 2}) {
    EXPECT_EQ(ranks.wait(rank), kFailed);
    EXPECT_THAT(ranks.said(rank), StartsWith("rank 1 (host h1): was killed"));
  }
}

TEST(Watch, one_rank_has_nothing_to_watch) {
  WatchOptions options;
  Watch watch(options, [](const std::string&) -> std::string {
    throw std::logic_error("there is no one to broadcast to");
  });
  watch.working("step 1");
  watch.waiting("the sum of losses", 1);
  watch.fail("no one hears it");
  watch.leave();
}

// A launcher that is gone, for example, which no other rank would see.
TEST(Watch, one_rank_sees_its_own_trouble) {
  ForkedRanks ranks(1, [&](ForkedRanks& self, int rank) {
    WatchOptions options = options_of(self, rank, 1, kSoon);
    const auto start = std::chrono::steady_clock::now();
    options.look = [start]() -> std::string {
      const auto now = std::chrono::steady_clock::now();
      return now - start < 2 * kSoon ? "" : "its launcher has ended";
    };
    Watch watch(options, broadcast_of(self, rank));
    // It waits for no one, however long, and nothing else is looked for.
    watch.waiting("the sum of losses", 1);
    for (;;) ::pause();
  });
  EXPECT_EQ(ranks.wait(0), kFailed);
  EXPECT_EQ(ranks.said(0), "rank 0 (host h0): its launcher has ended");
}

TEST(Watch, one_rank_without_trouble_ends_well) {
  WatchOptions options;
  options.look = [] { return std::string(); };
  options.on_failure = [](const RankFailure&) { FAIL(); };
  Watch watch(options, [](const std::string& text) { return text; });
  watch.working("step 1");
  watch.leave();
}

TEST(Watch, what_cannot_be_watched_is_refused) {
  for (const auto& [rank, size, timeout] :
       std::vector<std::tuple<int, int, double>>{
           {0, 0, 1}, {2, 2, 1}, {-1, 2, 1}, {0, 1, 0}, {0, 2, 1}}) {
    WatchOptions options;
    options.rank = rank;
    options.size = size;
    options.timeout = Seconds(timeout);
    EXPECT_THROW(Watch(options, [](const std::string& text) { return text; }),
                 Error)
        << rank << " of " << size;
  }
}

TEST(Watch, a_rank_that_does_not_connect_is_named_to_all) {
  ForkedRanks ranks(4, [&](ForkedRanks& self, int rank) {
    if (rank == 2) stay(self, rank);
    Watch watch(options_of(self, rank, 4, Seconds(2)),
                broadcast_of(self, rank));
  });
  for (const int rank : {0, 1, 3}) {
    EXPECT_EQ(ranks.wait(rank), 1);
    EXPECT_THAT(ranks.said(rank),
                AllOf(StartsWith("rank 2 did not connect to rank 0 (host h0)"),
                      HasSubstr("(lo)"), HasSubstr("OSDN_ADDRESS")));
  }
}

// 192.0.2.1 is kept for documents (RFC 5737): no host has it.
TEST(Watch, an_address_that_leads_nowhere_is_named_with_what_to_set) {
  ForkedRanks ranks(2, [&](ForkedRanks& self, int rank) {
    ::setenv("OSDN_ADDRESS", "192.0.2.1", 1);
    WatchOptions options = options_of(self, rank, 2, Seconds(2));
    options.address = "127.0.0.1";  // the variable stands above it
    Watch watch(options, broadcast_of(self, rank));
  });
  for (const int rank : {0, 1}) {
    EXPECT_EQ(ranks.wait(rank), 1);
    EXPECT_THAT(ranks.said(rank),
                AllOf(HasSubstr("192.0.2.1"), HasSubstr("host h0"),
                      HasSubstr("OSDN_ADDRESS"), HasSubstr("interface")));
  }
  EXPECT_THAT(ranks.said(1), StartsWith("rank 1 (host h1) cannot reach"));
  EXPECT_THAT(ranks.said(0), StartsWith("rank 1 did not connect"));
}

class WatchAtAddress : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, WatchAtAddress,
                         testing::Values("127.0.0.1", "::1", "localhost",
                                         "lo"));

TEST_P(WatchAtAddress, ranks_meet) {
  const std::string address = GetParam();
  if (address == "::1") {
    const auto all = interface_addresses();
    const bool there = std::any_of(
        all.begin(), all.end(),
        [](const InterfaceAddress& one) { return one.address == "::1"; });
    if (!there) GTEST_SKIP() << "this machine has no IPv6";
  }
  ForkedRanks ranks(3, [&](ForkedRanks& self, int rank) {
    WatchOptions options = options_of(self, rank, 3, Seconds(60));
    options.address = address;
    Watch watch(options, broadcast_of(self, rank));
    watch.leave();
  });
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(ranks.wait(rank), 0) << ranks.said(rank);
  }
}

TEST(Watch, the_same_rank_twice_is_refused) {
  ForkedRanks ranks(3, [&](ForkedRanks& self, int rank) {
    Watch watch(options_of(self, rank == 2 ? 1 : rank, 3, Seconds(60)),
                broadcast_of(self, rank));
  });
  EXPECT_EQ(ranks.wait(0), 1);
  EXPECT_THAT(ranks.said(0), HasSubstr("say that they are rank 1"));
  // One hears why; the other, whose connection is refused, that rank 0 ended.
  EXPECT_EQ(ranks.wait(1), 1);
  EXPECT_EQ(ranks.wait(2), 1);
}

/// The port in rank 0's broadcast: its third line.
std::uint16_t port_in(const std::string& invitation) {
  std::istringstream lines(invitation);
  std::string line;
  for (int i = 0; i < 3; ++i) std::getline(lines, line);
  return static_cast<std::uint16_t>(std::stoi(line));
}

Channel connected_to(std::uint16_t port) {
  std::string why;
  return Channel(start_connect(resolve("127.0.0.1", port, why).at(0), why));
}

TEST(Watch, strangers_at_the_port_change_nothing) {
  ForkedRanks ranks(2, [&](ForkedRanks& self, int rank) {
    std::vector<Channel> strangers;
    const auto broadcast = [&](const std::string& text) {
      const std::string invitation = self.broadcast(rank, text);
      if (rank == 0) return invitation;
      const std::uint16_t port = port_in(invitation);
      for (const std::string& text_sent :
           {std::string("GET / HTTP/1.1\r\n\r\n"),
            std::string("\xff\xff\xff\xff"), std::string(1 << 16, '\0'),
            encode({.kind = MessageKind::kJoin,
            .rank = 1,
            .text = "another token"})}) {
        strangers.push_back(connected_to(port));
        const Channel& stranger = strangers.back();
        wait_for_any(
            {}, -1,
            std::chrono::steady_clock::now() + std::chrono::milliseconds(50));
        ::send(stranger.descriptor(), text_sent.data(), text_sent.size(),
               MSG_NOSIGNAL);
      }
      // And more than are kept, that say nothing.
      for (int i = 0; i < 200; ++i) strangers.push_back(connected_to(port));
      return invitation;
    };
    Watch watch(options_of(self, rank, 2, Seconds(60)), broadcast);
    watch.leave();
  });
  EXPECT_EQ(ranks.wait(0), 0) << ranks.said(0);
  EXPECT_EQ(ranks.wait(1), 0) << ranks.said(1);
}

TEST(Watch, interrupted_calls_are_made_again) {
  ForkedRanks ranks(3, [&](ForkedRanks& self, int rank) {
    struct sigaction action {};
    action.sa_handler = [](int) {};  // without SA_RESTART
    ::sigaction(SIGALRM, &action, nullptr);
    const itimerval often{{0, 500}, {0, 500}};
    ::setitimer(ITIMER_REAL, &often, nullptr);
    Watch watch(options_of(self, rank, 3, Seconds(60)),
                broadcast_of(self, rank));
    for (int i = 0; i < 200; ++i) {
      watch.working("step " + std::to_string(i));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    watch.leave();
  });
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(ranks.wait(rank), 0) << ranks.said(rank);
  }
}

/// From now on the kernel has no port for this process.
void refuse_bind() {
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_bind, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EADDRINUSE),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{std::size(rules), rules};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    ::_exit(99);
  }
}

TEST(Watch, rank_0_that_cannot_listen_does_not_leave_the_others_waiting) {
  ForkedRanks ranks(2, [&](ForkedRanks& self, int rank) {
    if (rank == 0) refuse_bind();
    Watch watch(options_of(self, rank, 2, kNever), broadcast_of(self, rank));
  });
  for (const int rank : {0, 1}) {
    EXPECT_EQ(ranks.wait(rank), 1);
    EXPECT_THAT(ranks.said(rank), HasSubstr("cannot listen"));
  }
}

}  // namespace
}  // namespace osdn::dist
