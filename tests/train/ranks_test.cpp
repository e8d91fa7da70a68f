// Runs of several ranks: the same result, and what does not fit together.

#include "train/ranks.h"

#include <gmock/gmock.h>

#include <cmath>

#include "osdn/checkpoint/weight_files.h"
#include "osdn/core/concat.h"

namespace osdn::train {
namespace {

namespace fs = std::filesystem;
using test::fingerprints;
using test::kMpirun;
using test::Program;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

using Ranks = test::RanksTest;

void expect_near(const std::vector<report::StepRecord>& a,
                 const std::vector<report::StepRecord>& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_NEAR(a[i].loss, b[i].loss, tolerance) << "step " << a[i].step;
    EXPECT_EQ(a[i].valid_labels, b[i].valid_labels);
    ASSERT_EQ(a[i].validation.has_value(), b[i].validation.has_value());
    if (a[i].validation) {
      EXPECT_NEAR(a[i].validation->loss, b[i].validation->loss, tolerance);
      EXPECT_EQ(a[i].validation->tokens, b[i].validation->tokens);
    }
  }
}

// fp32: sums in another order differ by a few units in the last place of each
// gradient; over 100 steps of a smooth loss of about 3 that stays below 1e-4.
TEST_F(Ranks, L2_any_number_of_ranks_follows_the_loss_of_one) {
  tiny.json["training"]["steps"] = 100;
  tiny.json["training"]["validate_every"] = 50;
  tiny.json["schedule"]["total_steps"] = 100;
  Program alone({OSDN_BIN_DIR "/osdn-train", "--config",
                 tiny.config_file("alone").string()});
  ASSERT_EQ(alone.wait(), 0) << alone.err();
  run(1, "one");
  expect_near(tiny.log("one"), tiny.log("alone"), 1e-6);
  for (const int ranks : {2, 3, 4}) {
    const std::string name = concat("run", ranks);
    run(ranks, name);
    expect_near(tiny.log(name), tiny.log("alone"), 1e-4);
  }
  run(3, "again");
  EXPECT_EQ(fingerprints(tiny.log("again")), fingerprints(tiny.log("run3")));
}

TEST_F(Ranks, fp64_ranks_follow_one_to_the_last_digits) {
  tiny.json["training"]["dtype"] = "fp64";
  run(1, "one");
  run(3, "three");
  expect_near(tiny.log("three"), tiny.log("one"), 1e-12);
}

TEST_F(Ranks, a_whole_optimizer_is_the_sharded_one) {
  run(3, "sharded");
  run(3, "whole", {"--set", "dist.shard_optimizer=false"});
  expect_near(tiny.log("whole"), tiny.log("sharded"), 1e-5);
}

TEST_F(Ranks, buckets_of_any_size_give_the_same_sums) {
  run(3, "few");
  run(3, "many", {"--set", "dist.bucket_mb=0.0001"});
  expect_near(tiny.log("many"), tiny.log("few"), 1e-6);
}

// bf16 keeps 8 bits: each gradient is rounded to one part in 256, which moves
// the loss of 12 steps by less than 2 in a hundred, and does move it.
TEST_F(Ranks, gradients_are_summed_in_the_precision_asked_for) {
  run(2, "fp32");
  run(2, "bf16", {"--set", "dist.reduce_dtype=bf16"});
  expect_near(tiny.log("bf16"), tiny.log("fp32"), 0.05);
  EXPECT_NE(tiny.log("bf16").back().loss, tiny.log("fp32").back().loss);
}

// L3: some ranks have no row with a label in a micro-batch, or none at all.
TEST_F(Ranks, L3_a_rank_without_labels_stays_in_step) {
  tiny.json["data"]["epochs"] = 1;
  tiny.json["training"]["steps"] = 1000;
  Program alone({OSDN_BIN_DIR "/osdn-train", "--config",
                 tiny.config_file("alone").string()});
  ASSERT_EQ(alone.wait(), 0) << alone.err();
  run(4, "four");  // the last step of the epoch has fewer rows
  expect_near(tiny.log("four"), tiny.log("alone"), 1e-5);
}

TEST_F(Ranks, C3_R1_a_checkpoint_of_some_ranks_goes_on_on_others) {
  run(1, "whole");
  for (const auto& [first, second] :
       {std::pair{3, 2}, {2, 4}, {1, 3}, {4, 1}}) {
    const std::string name = concat("run", first, second);
    run(first, name, {"--set", "training.steps=8"});
    run(second, name, {"--resume", "auto"});
    expect_near(tiny.log(name), tiny.log("whole"), 1e-4);
    EXPECT_EQ(tiny.saved_steps(name).back(), 12);
  }
}

TEST_F(Ranks, a_checkpoint_holds_each_tensor_once) {
  run(3, "three");
  run(1, "one");
  for (const char* stem : {"model", "optimizer"}) {
    const checkpoint::WeightFiles three(
        tiny.run_dir("three") / "checkpoints" / "step_000000012", stem);
    const checkpoint::WeightFiles one(
        tiny.run_dir("one") / "checkpoints" / "step_000000012", stem);
    ASSERT_EQ(three.tensors().size(), one.tensors().size());
    for (const TensorView& tensor : one.tensors()) {
      EXPECT_EQ(three.tensor(tensor.name).shape, tensor.shape);
    }
  }
}

TEST_F(Ranks, G3_a_batch_that_the_ranks_do_not_divide_is_refused_once) {
  Program program(command(5, "run"));
  EXPECT_NE(program.wait(), 0);
  const std::string& err = program.err();
  EXPECT_THAT(err,
              HasSubstr("training.global_batch is 12, which is no multiple "
                        "of 5 ranks times training.micro_batch 1"));
  EXPECT_EQ(err.find("is no multiple"), err.rfind("is no multiple"));
  EXPECT_FALSE(fs::exists(tiny.run_dir() / "log.jsonl"));
}

TEST_F(Ranks, ranks_of_different_configurations_are_refused) {
  std::vector<std::string> all = command(1, "run");
  const std::vector<std::string> other =
      command(1, "run", {"--set", "optimizer.lr=0.5"});
  all.push_back(":");
  all.insert(all.end(), other.begin() + 4, other.end());
  Program program(all);
  EXPECT_NE(program.wait(), 0);
  EXPECT_THAT(program.err(), AllOf(HasSubstr("their configurations differ"),
                                   HasSubstr("optimizer.lr: 0.01 and 0.5")));
}

TEST_F(Ranks, ranks_of_different_options_are_refused) {
  run(2, "run", {"--set", "training.steps=4"});
  const auto log_before = tiny.log();
  const std::vector<
      std::pair<std::vector<std::string>, std::vector<std::string>>>
      pairs = {{{"--resume", "auto"}, {}},
               {{"--resume", "never"}, {"--resume", "auto"}},
               {{"--resume", "auto"}, {"--resume", tiny.run_dir().string()}},
               {{}, {"--overwrite"}},
               {{"--resume", "auto"}, {"--dry-run"}},
               {{"--print-config"}, {"--resume", "auto"}}};
  for (const auto& [first, second] : pairs) {
    std::vector<std::string> all = command(1, "run", first);
    const std::vector<std::string> other = command(1, "run", second);
    all.push_back(":");
    all.insert(all.end(), other.begin() + 4, other.end());
    Program program(all);
    EXPECT_NE(program.wait(), 0);
    EXPECT_THAT(program.err(), HasSubstr("the ranks do not fit together"));
    for (const auto& options : {first, second}) {
      if (options.empty() || options.front() == "--resume") continue;
      EXPECT_THAT(program.err(), HasSubstr(options.front()));
    }
    EXPECT_EQ(fingerprints(tiny.log()), fingerprints(log_before));
  }
}

TEST_F(Ranks, a_dry_run_says_what_each_rank_takes) {
  const auto text = [&](int ranks, std::vector<std::string> more) {
    more.emplace_back("--dry-run");
    Program program(command(ranks, "run", std::move(more)));
    EXPECT_EQ(program.wait(), 0) << program.err();
    const std::string out = program.out();
    EXPECT_EQ(out.find("Configuration\n"), out.rfind("Configuration\n"));
    return out;
  };
  EXPECT_THAT(text(3, {}),
              AllOf(HasSubstr("Memory of each of 3 ranks, optimizer sharded"),
                    HasSubstr("12 micro-batches, 4 on each rank")));
  EXPECT_THAT(text(2, {"--set", "dist.shard_optimizer=false"}),
              HasSubstr("of each of 2 ranks, optimizer on every one"));
  Program program(command(5, "run", {"--dry-run"}));
  EXPECT_NE(program.wait(), 0);
  EXPECT_THAT(program.err(), HasSubstr("no multiple of 5 ranks"));
  EXPECT_FALSE(fs::exists(tiny.run_dir()));
}

TEST_F(Ranks, ranks_of_different_data_are_refused) {
  // One configuration, two folders that it is read from.
  const fs::path other = tiny.folder() / "other";
  fs::create_directory(other);
  test::write_shard(other / "train.tokens", test::tiny_documents(77, 40));
  fs::copy_file(tiny.folder() / "validation.tokens",
                other / "validation.tokens");
  tiny.json["data"]["train"] = {"train.tokens"};
  tiny.json["data"]["validation"] = {"validation.tokens"};
  const std::vector<std::string> program_of = {
      OSDN_BIN_DIR "/osdn-train", "--config", tiny.config_file().string()};
  std::vector<std::string> all = {
      kMpirun, "--oversubscribe", "--bind-to",           "none", "-n",
      "1",     "--wdir",          tiny.folder().string()};
  all.insert(all.end(), program_of.begin(), program_of.end());
  all.insert(all.end(), {":", "-n", "1", "--wdir", other.string()});
  all.insert(all.end(), program_of.begin(), program_of.end());
  Program program(all);
  EXPECT_NE(program.wait(), 0);
  EXPECT_THAT(program.err(), HasSubstr("data.train holds different tokens"));
  EXPECT_FALSE(fs::exists(tiny.run_dir() / "log.jsonl"));
}

TEST_F(Ranks, ranks_of_different_builds_are_refused) {
  const fs::path other = tiny.folder() / "osdn-train";
  fs::copy_file(OSDN_BIN_DIR "/osdn-train", other);
  std::ofstream(other, std::ios::app) << "another build";
  std::vector<std::string> all = command(1, "run");
  all.insert(all.end(), {":", "-n", "1", other.string(), "--config",
                         tiny.config_file("run").string()});
  Program program(all);
  EXPECT_NE(program.wait(), 0);
  EXPECT_THAT(program.err(), HasSubstr("they run different builds"));
}

TEST_F(Ranks, P7_a_rank_bound_to_one_core_is_told_how_to_have_more) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "one core";
  Program program({kMpirun, "--oversubscribe", "--bind-to", "core", "-n", "1",
                   OSDN_BIN_DIR "/osdn-train", "--config",
                   tiny.config_file().string(), ":", "-n", "1",
                   OSDN_BIN_DIR "/osdn-train", "--config",
                   tiny.config_file().string()});
  EXPECT_EQ(program.wait(), 0) << program.err();
  EXPECT_THAT(program.err(), AllOf(HasSubstr("is bound to core "),
                                   HasSubstr("--bind-to none")));
}

TEST_F(Ranks, a_wrong_option_is_said_once) {
  Program program(command(3, "run", {"--nope"}));
  EXPECT_NE(program.wait(), 0);
  const std::string& err = program.err();
  EXPECT_THAT(err, HasSubstr("--nope"));
  EXPECT_EQ(err.find("was not expected"), err.rfind("was not expected"));
}

TEST_F(Ranks, copies_that_do_not_know_of_each_other_are_refused) {
  ::setenv("PMI_RANK", "1", 1);
  ::setenv("PMI_SIZE", "2", 1);
  Program program(
      {OSDN_BIN_DIR "/osdn-train", "--config", tiny.config_file().string()});
  ::unsetenv("PMI_RANK");
  ::unsetenv("PMI_SIZE");
  EXPECT_EQ(program.wait(), 2);
  EXPECT_THAT(program.err(), HasSubstr("started 2 ranks (PMI_SIZE)"));
}

TEST_F(Ranks, O3_one_rank_speaks_in_plain_lines) {
  Program program(command(2, "run"));
  EXPECT_EQ(program.wait(), 0) << program.err();
  EXPECT_THAT(program.out(),
              AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr("\r"))));
  const std::string& err = program.err();
  EXPECT_EQ(err.find("finished step 12"), err.rfind("finished step 12"));
}

}  // namespace
}  // namespace osdn::train
