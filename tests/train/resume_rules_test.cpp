#include "osdn/train/resume_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "osdn/core/error.h"

namespace osdn::train {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

RunState state_of() {
  RunState state;
  state.data_fingerprint = "aa";
  state.device = "cpu";
  state.dtype = "fp32";
  state.threads = 2;
  return state;
}

std::string refusal(const std::string& before, const std::string& now,
                    const RunState& state_now = state_of()) {
  try {
    check_resumable("runs/x/checkpoints/step_1", before, now, state_of(),
                    state_now);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    return error.what();
  }
  ADD_FAILURE() << "accepted";
  return "";
}

TEST(ChangedKeys, lists_every_difference_and_nothing_else) {
  const auto changes =
      changed_keys(R"({"a": {"b": 1, "c": 2, "d": [1, 2]}, "e": "x"})",
                   R"({"a": {"b": 1, "c": 3, "d": [1, 3]}, "f": 0.5})");
  ASSERT_THAT(changes, SizeIs(4));
  EXPECT_EQ(changes[0].key, "a.c");
  EXPECT_EQ(changes[0].before, "2");
  EXPECT_EQ(changes[0].after, "3");
  EXPECT_EQ(changes[1].key, "a.d");
  EXPECT_EQ(changes[2].key, "e");
  EXPECT_EQ(changes[2].after, "(not set)");
  EXPECT_EQ(changes[3].key, "f");
  EXPECT_EQ(changes[3].before, "(not set)");
}

TEST(ResumeRules, R4_the_optimizer_may_change_and_each_change_is_told) {
  const ResumeReport report = check_resumable(
      "c", R"({"optimizer": {"beta1": 0.9, "eps": 1e-15, "lr": 1e-3}})",
      R"({"optimizer": {"beta1": 0.8, "eps": 1e-15, "lr": 2e-3}})", state_of(),
      state_of());
  ASSERT_THAT(report.changes, SizeIs(2));
  EXPECT_EQ(report.changes[0].key, "optimizer.beta1");
  EXPECT_EQ(report.changes[1].key, "optimizer.lr");
  EXPECT_THAT(report.warnings, IsEmpty());
}

TEST(ResumeRules, model_seed_and_packing_have_to_agree_all_are_listed) {
  const std::string message = refusal(
      R"({"model": {"num_heads": 8, "preconditioner": {"eta": 0.003}},
          "training": {"seed": 1}, "data": {"packing": "documents"}})",
      R"({"model": {"num_heads": 4},
          "training": {"seed": 2}, "data": {"packing": "stream"}})");
  EXPECT_THAT(message, HasSubstr("runs/x/checkpoints/step_1"));
  EXPECT_THAT(message, HasSubstr("model.num_heads was 8 and is now 4"));
  EXPECT_THAT(message, HasSubstr("model.preconditioner.eta was 0.003"));
  EXPECT_THAT(message, HasSubstr("training.seed was 1 and is now 2"));
  EXPECT_THAT(message, HasSubstr("data.packing"));
}

TEST(ResumeRules, other_tokens_are_refused_moved_files_are_not) {
  RunState other = state_of();
  other.data_fingerprint = "bb";
  EXPECT_THAT(refusal("{}", "{}", other),
              testing::AllOf(HasSubstr("data.train"), HasSubstr("aa"),
                             HasSubstr("bb")));
  const ResumeReport moved =
      check_resumable("c", R"({"data": {"train": ["a"]}})",
                      R"({"data": {"train": ["b"]}})", state_of(), state_of());
  ASSERT_THAT(moved.changes, SizeIs(1));
  EXPECT_EQ(moved.changes[0].key, "data.train");
}

TEST(ResumeRules, another_packing_is_not_also_called_other_tokens) {
  RunState other = state_of();
  other.data_fingerprint = "bb";  // the packing is part of it
  const std::string message =
      refusal(R"({"data": {"packing": "documents"}})",
              R"({"data": {"packing": "stream"}})", other);
  EXPECT_THAT(message, HasSubstr("data.packing"));
  EXPECT_THAT(message, Not(HasSubstr("other tokens")));
}

TEST(ResumeRules, other_threads_or_device_warn_that_bits_may_differ) {
  RunState other = state_of();
  other.threads = 8;
  other.device = "cuda";
  const ResumeReport report =
      check_resumable("c", "{}", "{}", state_of(), other);
  ASSERT_THAT(report.warnings, SizeIs(2));
  EXPECT_THAT(report.warnings[0], HasSubstr("was 2 and is now 8"));
  EXPECT_THAT(report.warnings[1], HasSubstr("last bits"));
}

TEST(ResumeRules, fp64_and_fp32_states_are_not_mixed) {
  RunState other = state_of();
  other.dtype = "fp64";
  EXPECT_THAT(refusal("{}", "{}", other), HasSubstr("training.dtype"));
}

}  // namespace
}  // namespace osdn::train
