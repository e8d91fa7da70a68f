// osdn-bench's measurements of whole models, on a tiny one: that they run what
// they say they run. Nothing here looks at a clock.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "osdn/bench/generate_speed.h"
#include "osdn/bench/timing.h"
#include "osdn/bench/train_speed.h"
#include "osdn/core/error.h"
#include "support/message_of.h"
#include "support/temp_dir.h"

namespace osdn::bench {
namespace {

config::Config tiny() {
  config::Config c;
  c.model.vocab_size = 50;
  c.model.hidden_size = 32;
  c.model.num_layers = 2;
  c.model.num_heads = 2;
  c.model.intermediate_size = 48;
  c.model.preconditioner.enabled = true;
  c.model.preconditioner.retention = config::Retention::kDataDependent;
  c.training.device = "cpu";
  c.training.threads = 1;
  return c;
}

TrainSpeedOptions short_steps() {
  TrainSpeedOptions options;
  options.tokens = 100;
  options.document_tokens = 30;
  options.warmup = 1;
  options.steps = 3;
  return options;
}

TEST(TrainSpeed, trains_on_documents_of_the_given_length) {
  TrainSpeedOptions options = short_steps();
  const test::TempDir folder;
  options.trace = folder / "trace.json";
  dist::World world;
  const auto speeds = time_apart(tiny(), options, world);
  ASSERT_EQ(speeds.size(), 1U);
  const TrainSpeed& speed = speeds.front();
  EXPECT_EQ(speed.company, Company::kAlone);
  EXPECT_EQ(speed.device, "cpu");
  EXPECT_EQ(speed.dtype, "fp32");
  EXPECT_EQ(speed.tokens_per_step, 100);
  EXPECT_NEAR(speed.loss_first, std::log(50), 0.3);
  EXPECT_NE(speed.loss_first, speed.loss_last);
  EXPECT_GT(speed.step_s(), 0);
  EXPECT_GT(speed.ranks.front().update_s, 0);
  EXPECT_LT(speed.ranks.front().update_s, speed.step_s());
  EXPECT_NEAR(speed.tokens_per_s(), 100 / speed.step_s(),
              1e-6 * 100 / speed.step_s());
  EXPECT_GT(std::filesystem::file_size(*options.trace), 1000U);
}

// As many labels in as many passes: the loss of random weights stays near that
// of guessing, and tokens that the passes cannot share are refused.
TEST(TrainSpeed, shares_the_tokens_of_a_step_among_its_passes) {
  TrainSpeedOptions options = short_steps();
  options.micro_batches = 4;
  dist::World world;
  const TrainSpeed speed = time_apart(tiny(), options, world).front();
  EXPECT_EQ(speed.tokens_per_step, 100);
  EXPECT_EQ(speed.micro_batches, 4);
  EXPECT_NEAR(speed.loss_first, std::log(50), 0.3);
  options.micro_batches = 3;
  EXPECT_THAT(test::message_of([&] { time_apart(tiny(), options, world); },
                               ExitCode::kUsage),
              testing::HasSubstr("100 tokens a step do not make 3"));
  options.micro_batches = 100;
  EXPECT_THROW(time_apart(tiny(), options, world), Error);
}

TEST(TrainSpeed, refuses_what_the_trainer_refuses) {
  config::Config c = tiny();
  c.training.dtype = "bf16";
  dist::World world;
  EXPECT_THROW(time_apart(c, {}, world), Error);
}

TEST(GenerateSpeed, continues_several_prompts) {
  const GenerateSpeed speed = time_generation(
      tiny(), {.batch = 3, .prompt_tokens = 70, .new_tokens = 5});
  EXPECT_EQ(speed.device, "cpu");
  EXPECT_GT(speed.prefill_tokens_per_s, 0);
  EXPECT_GT(speed.decode_step_s, 0);
  EXPECT_NEAR(speed.decode_tokens_per_s, 3 / speed.decode_step_s,
              1e-6 * 3 / speed.decode_step_s);
}

TEST(Timing, medians_of_odd_and_even_counts) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_EQ(median({7}), 7);
}

TEST(Timing, warm_up_calls_do_not_count) {
  int calls = 0;
  EXPECT_EQ(time_calls([&] { ++calls; }, at::kCPU, 2, 5).size(), 5U);
  EXPECT_EQ(calls, 7);
}

}  // namespace
}  // namespace osdn::bench
