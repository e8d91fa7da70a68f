#include "osdn/dist/roster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace osdn::dist {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using TimePoint = Roster::TimePoint;

/// Three ranks with a patience of 10 s, and a clock that the test turns.
class RosterOfThree : public testing::Test {
 protected:
  static TimePoint at(double seconds) {
    return TimePoint() + std::chrono::duration_cast<TimePoint::duration>(
                             Roster::Seconds(seconds));
  }
  /// All say the same things as before, from `from` to `to`, each second.
  void go_on(double from, double to) {
    for (double t = from; t <= to; t += 1) {
      for (int rank = 0; rank < 3; ++rank) {
        roster.heard(rank, progress[static_cast<std::size_t>(rank)], at(t));
      }
      const auto found = roster.find(at(t));
      if (found) {
        failure = found;
        found_at = t;
        return;
      }
    }
  }
  void working(std::size_t rank, const std::string& on) {
    Progress& mine = progress[rank];
    mine = {mine.count + 1, mine.sequence, false, on};
  }
  void waiting(std::size_t rank, const std::string& in,
               std::uint64_t sequence) {
    progress[rank] = {progress[rank].count + 1, sequence, true, in};
  }

  Roster roster{{{0, "a"}, {1, "b"}, {2, "c"}}, Roster::Seconds(10), at(0)};
  std::vector<Progress> progress{3};
  std::optional<RankFailure> failure;
  double found_at = 0;
};

TEST_F(RosterOfThree, ranks_that_work_on_for_long_are_well) {
  for (std::size_t rank = 0; rank < 3; ++rank) working(rank, "step 1");
  go_on(0, 1000);
  EXPECT_FALSE(failure);
}

TEST_F(RosterOfThree, silence_is_noticed_after_the_patience) {
  roster.heard(0, {}, at(5));
  roster.heard(1, {1, 0, false, "step 3"}, at(4));
  roster.heard(2, {}, at(5));
  EXPECT_FALSE(roster.find(at(14)));
  const auto found = roster.find(at(14.5));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 1);
  EXPECT_EQ(found->host, "b");
  EXPECT_THAT(found->why, AllOf(HasSubstr("for 11 s"), HasSubstr("step 3"),
                                Not(HasSubstr("rank"))));
}

TEST_F(RosterOfThree, those_who_are_silent_together_are_named_together) {
  roster.heard(0, {}, at(20));
  const auto found = roster.find(at(20));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 1);
  EXPECT_THAT(found->why, HasSubstr("nor did rank 2"));
}

TEST_F(RosterOfThree, who_has_left_may_be_silent) {
  roster.left(1);
  for (double t = 0; t < 100; t += 1) {
    roster.heard(0, {}, at(t));
    roster.heard(2, {}, at(t));
    EXPECT_FALSE(roster.find(at(t)));
  }
  EXPECT_TRUE(roster.has_left(1));
  EXPECT_FALSE(roster.has_left(2));
}

TEST_F(RosterOfThree, one_behind_the_others_is_found) {
  for (std::size_t rank = 0; rank < 3; ++rank) waiting(rank, "losses", 1);
  working(1, "step 2: backward");
  waiting(0, "gradients", 2);
  waiting(2, "gradients", 2);
  go_on(0, 100);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->rank, 1);
  EXPECT_THAT(failure->why, AllOf(HasSubstr("gradients (operation 2)"),
                                  HasSubstr("in which rank 0 waits"),
                                  HasSubstr("step 2: backward")));
  EXPECT_EQ(found_at, 11);
}

TEST_F(RosterOfThree, one_still_in_an_operation_that_the_others_have_passed) {
  for (std::size_t rank = 0; rank < 3; ++rank) waiting(rank, "losses", 1);
  waiting(0, "gradients", 2);
  waiting(1, "gradients", 2);
  go_on(0, 100);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->rank, 2);
  EXPECT_THAT(failure->why, HasSubstr("still waits in losses (operation 1)"));
}

TEST_F(RosterOfThree, progress_of_the_one_behind_gives_it_time) {
  waiting(0, "the checkpoint", 1);
  waiting(1, "the checkpoint", 1);
  for (int part = 0; part < 20; ++part) {
    working(2, "writing part " + std::to_string(part));
    go_on(9 * part, 9 * part + 8);
  }
  EXPECT_FALSE(failure);
  go_on(180, 200);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->rank, 2);
}

TEST_F(RosterOfThree, an_operation_that_ends_nowhere_is_found) {
  for (std::size_t rank = 0; rank < 3; ++rank) waiting(rank, "gradients", 7);
  go_on(0, 100);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->rank, 0);
  EXPECT_THAT(failure->why, AllOf(HasSubstr("gradients (operation 7)"),
                                  HasSubstr("every rank has come to it"),
                                  HasSubstr("ranks 1, 2")));
}

TEST_F(RosterOfThree, an_operation_that_has_ended_for_others_alone_is_found) {
  for (std::size_t rank = 0; rank < 3; ++rank) waiting(rank, "gradients", 7);
  working(0, "step 8");
  working(2, "step 8");
  go_on(0, 100);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->rank, 1);
}

TEST_F(RosterOfThree, operations_that_follow_each_other_are_well) {
  for (std::uint64_t n = 1; n < 50; ++n) {
    // Each of them waits almost the whole patience, one rank after another.
    for (std::size_t rank = 0; rank < 3; ++rank) {
      waiting((n + rank) % 3, "gradients", n);
      go_on(static_cast<double>(9 * n + 3 * rank),
            static_cast<double>(9 * n + 3 * rank + 2));
    }
  }
  EXPECT_FALSE(failure);
}

TEST_F(RosterOfThree, who_left_while_others_wait_is_missing) {
  roster.left(2);
  waiting(0, "losses", 3);
  waiting(1, "losses", 3);
  go_on(0, 100);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->rank, 2);
  EXPECT_THAT(failure->why, HasSubstr("has left the run"));
}

TEST_F(RosterOfThree, who_left_from_a_last_operation_waits_for_nobody) {
  for (std::size_t rank = 0; rank < 3; ++rank) {
    waiting(rank, "the end", 3);
    roster.left(static_cast<int>(rank));
  }
  go_on(0, 100);
  EXPECT_FALSE(failure);
}

TEST(Roster, many_ranks_at_fault_are_counted_not_listed) {
  std::vector<Roster::Member> members;
  for (int rank = 0; rank < 100; ++rank) members.push_back({rank, "h"});
  Roster roster(members, Roster::Seconds(1), {});
  const auto found = roster.find(TimePoint() + std::chrono::seconds(2));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 0);
  EXPECT_THAT(found->why,
              HasSubstr("ranks 1, 2, 3, 4, 5, 6, 7, 8 and 91 more"));
}

}  // namespace
}  // namespace osdn::dist
