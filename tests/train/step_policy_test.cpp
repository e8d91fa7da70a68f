#include "osdn/train/step_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace osdn::train {
namespace {

using testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
const StepResult kGood = {StepOutcome::kUpdated, 2.5, 1.0};
const StepResult kBadNorm = {StepOutcome::kNonFinite, 2.5, kNan};

config::TrainingConfig config_of(const std::string& policy, int max_skips) {
  config::TrainingConfig config;
  config.non_finite = policy;
  config.max_skips = max_skips;
  return config;
}

TEST(StepPolicy, P1_skips_are_counted_and_stop_after_so_many_in_a_row) {
  const config::TrainingConfig config = config_of("skip", 3);
  RunState state;
  EXPECT_EQ(judge(config, 1, kBadNorm, state).verdict, Verdict::kGoOn);
  EXPECT_EQ(judge(config, 2, kBadNorm, state).verdict, Verdict::kGoOn);
  EXPECT_EQ(judge(config, 3, kGood, state).verdict, Verdict::kGoOn);
  EXPECT_EQ(state.skipped, 2);
  EXPECT_EQ(state.skipped_in_row, 0);  // a good step ends the row
  EXPECT_EQ(judge(config, 4, kBadNorm, state).verdict, Verdict::kGoOn);
  EXPECT_EQ(judge(config, 5, kBadNorm, state).verdict, Verdict::kGoOn);
  const Decision last = judge(config, 6, kBadNorm, state);
  EXPECT_EQ(last.verdict, Verdict::kStop);
  EXPECT_EQ(state.skipped, 5);
  EXPECT_THAT(last.message, HasSubstr("step 6"));
  EXPECT_THAT(last.message, HasSubstr("gradient norm is nan"));
  EXPECT_THAT(last.message, HasSubstr("training.max_skips = 3"));
}

TEST(StepPolicy, P1_stop_leaves_the_state_uncounted) {
  RunState state;
  StepResult bad = kBadNorm;
  bad.loss = std::numeric_limits<double>::infinity();
  const Decision decision = judge(config_of("stop", 10), 7, bad, state);
  EXPECT_EQ(decision.verdict, Verdict::kStopHere);
  EXPECT_THAT(decision.message, HasSubstr("loss is inf"));
  EXPECT_EQ(state.skipped, 0);
}

TEST(StepPolicy, L3_a_step_without_labels_is_loud_and_never_stops) {
  const config::TrainingConfig config = config_of("skip", 1);
  RunState state;
  StepResult empty;
  empty.outcome = StepOutcome::kUnlabelled;
  for (int step = 1; step <= 5; ++step) {
    const Decision decision = judge(config, step, empty, state);
    EXPECT_EQ(decision.verdict, Verdict::kGoOn);
    EXPECT_THAT(decision.message, HasSubstr("no label is valid"));
  }
  EXPECT_EQ(state.unlabelled, 5);
  EXPECT_EQ(state.skipped, 0);
  EXPECT_TRUE(judge(config, 6, kGood, state).message.empty());
}

}  // namespace
}  // namespace osdn::train
