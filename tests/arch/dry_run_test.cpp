#include "osdn/arch/dry_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>

#include "osdn/config/reader.h"
#include "support/temp_dir.h"

namespace osdn::arch {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string source_config(const std::string& name) {
  return std::string(OSDN_SOURCE_DIR) + "/configs/" + name;
}

std::string report_of(const std::string& name,
                      const std::vector<std::string>& overrides = {}) {
  return dry_run_report(config::load({source_config(name), overrides}));
}

TEST(DryRun, O2_published_configurations_have_the_published_parameters) {
  const std::map<std::string, std::string> totals = {
      {"340m_deltanet.json", "374,362,112"},
      {"340m_osdn.json", "374,386,688"},
      {"340m_osdn_apf.json", "374,583,488"},
      {"1.3b_deltanet.json", "1,365,677,056"},
      {"1.3b_osdn.json", "1,365,726,208"},
      {"1.3b_osdn_apf.json", "1,366,513,024"}};
  for (const auto& [name, total] : totals) {
    EXPECT_THAT(report_of(name), HasSubstr(" " + total + "\n")) << name;
  }
  EXPECT_THAT(report_of("340m_osdn_apf.json"),
              HasSubstr("total_parameters = 374583488\n"));
}

TEST(DryRun, published_recipe) {
  const std::string text = report_of("340m_osdn_apf.json");
  EXPECT_THAT(text, HasSubstr("Tokens a step: 524,288 (8 rows of 65,536"));
  EXPECT_THAT(text, HasSubstr("Tokens in all: 10,737,418,240 in 20,480"));
  EXPECT_THAT(text, Not(HasSubstr("at most")));
  EXPECT_THAT(report_of("1.3b_osdn_apf.json"),
              HasSubstr("Tokens in all: 100,000,071,680 in 190,735"));
  EXPECT_THAT(text, HasSubstr("1.0000e-03"));
  EXPECT_THAT(text, HasSubstr("1.0000e-04"));
}

TEST(DryRun, documents_fill_rows_at_most) {
  const std::string text =
      report_of("340m_osdn_apf.json", {"data.packing=documents"});
  EXPECT_THAT(text, HasSubstr("Tokens a step: at most 524,288"));
  EXPECT_THAT(text, HasSubstr("Tokens in all: at most 10,737,418,240"));
}

TEST(DryRun, shows_the_resolved_configuration) {
  const config::Config config = config::load(
      {source_config("340m_osdn_apf.json"), {"optimizer.lr=0.0005"}});
  const std::string text = dry_run_report(config);
  EXPECT_THAT(text, HasSubstr(config::to_json(config)));
  EXPECT_THAT(text, HasSubstr("\"lr\": 0.0005"));
}

TEST(DryRun, R7_prints_the_two_decay_groups) {
  const std::string published = report_of("340m_osdn_apf.json");
  EXPECT_THAT(published, HasSubstr("374,362,112  in "));
  EXPECT_THAT(published, HasSubstr("221,376  in 72 tensors:"));
  EXPECT_THAT(published, HasSubstr("attn.initial_scale"));
  EXPECT_THAT(published, Not(HasSubstr("    model.norm.weight")));
  const std::string exempt =
      report_of("340m_osdn_apf.json", {"optimizer.decay_exempt=true"});
  EXPECT_THAT(exempt, HasSubstr("    model.norm.weight"));
  EXPECT_THAT(exempt, HasSubstr("    model.embeddings.weight"));
}

TEST(DryRun, memory_of_the_precisions_that_the_run_may_use) {
  const std::string either = report_of("340m_deltanet.json");
  EXPECT_THAT(either, HasSubstr("computing in fp32"));
  EXPECT_THAT(either, HasSubstr("computing in bf16"));
  const std::string cpu =
      report_of("340m_deltanet.json", {"training.device=cpu"});
  EXPECT_THAT(cpu, HasSubstr("computing in fp32"));
  EXPECT_THAT(cpu, Not(HasSubstr("computing in bf16")));
  const std::string cuda =
      report_of("340m_deltanet.json", {"training.device=cuda"});
  EXPECT_THAT(cuda, Not(HasSubstr("computing in fp32")));
  EXPECT_THAT(report_of("340m_deltanet.json", {"training.dtype=fp64"}),
              HasSubstr("computing in fp64"));
  // fp32 runs on both.
  const std::string single =
      report_of("340m_deltanet.json", {"training.dtype=fp32"});
  EXPECT_THAT(single, HasSubstr("on a CPU, estimated, computing in fp32"));
  EXPECT_THAT(single, HasSubstr("on a GPU, estimated, computing in fp32"));
  // A micro-batch is what is in memory at once.
  EXPECT_THAT(report_of("340m_deltanet.json", {"training.micro_batch=4"}),
              HasSubstr("micro-batches of 262,144 tokens"));
}

TEST(DryRun, says_what_each_of_several_ranks_takes) {
  const config::Config config = config::load(
      {source_config("1.3b_deltanet.json"), {"training.device=cuda"}});
  const std::string text = dry_run_report(config, 4);
  EXPECT_THAT(text, HasSubstr("Memory of each of 4 ranks, optimizer sharded"));
  EXPECT_THAT(text, HasSubstr("8 micro-batches, 2 on each rank"));
  EXPECT_THAT(text, HasSubstr("  exchange "));
  // 1.37e9 parameters: moments of 8 bytes, a quarter of them.
  EXPECT_THAT(text, HasSubstr("optimizer               2.54 GiB"));
  EXPECT_THAT(dry_run_report(config), Not(HasSubstr("  exchange ")));
}

TEST(DryRun, says_at_which_moment_most_is_held) {
  EXPECT_THAT(report_of("340m_osdn_apf.json"),
              HasSubstr("at the fullest, the backward of layer 23's MLP"));
}

TEST(DryRun, warns_of_more_than_a_gpu_holds) {
  const config::Config config =
      config::load({source_config("1.3b_deltanet.json"), {}});
  const GpuFound small{"NVIDIA H100", std::int64_t{80} << 30};
  const std::string warned = dry_run_report(config, 0, small);
  EXPECT_THAT(warned, HasSubstr("Warning: more than this machine's NVIDIA H100 "
                                "holds (80.00 GiB); lower "
                                "data.sequence_length, or set "
                                "training.recompute to true."));
  const GpuFound large{"NVIDIA B300", std::int64_t{288} << 30};
  EXPECT_THAT(dry_run_report(config, 0, large), Not(HasSubstr("more than")));
  // Without a GPU here: those that are known.
  EXPECT_THAT(report_of("1.3b_deltanet.json", {"data.sequence_length=32768"}),
              HasSubstr("more than an H100 of 80 GB holds"));
  EXPECT_THAT(report_of("1.3b_deltanet.json", {"data.sequence_length=131072"}),
              HasSubstr("more than an H200 holds (139.80 GiB); lower"));
  EXPECT_THAT(report_of("340m_deltanet.json"), Not(HasSubstr("more than")));
  EXPECT_THAT(report_of("1.3b_deltanet.json", {"training.device=cpu"}),
              Not(HasSubstr("more than")));
}

TEST(DryRun, R2_says_where_training_leaves_the_schedule) {
  EXPECT_THAT(report_of("340m_deltanet.json", {"training.steps=50"}),
              HasSubstr("Training stops after 50 steps, before the"));
  EXPECT_THAT(report_of("340m_deltanet.json", {"training.steps=30000"}),
              HasSubstr("Training stops after 30,000 steps, past the"));
  EXPECT_THAT(report_of("340m_deltanet.json"),
              Not(HasSubstr("Training stops")));
}

TEST(DryRun, every_schedule_is_sampled) {
  for (const std::string kind : {"linear", "cosine"}) {
    EXPECT_THAT(report_of("340m_deltanet.json", {"schedule.kind=" + kind}),
                HasSubstr("Learning rate: " + kind + " over 20,480 steps"));
  }
  EXPECT_THAT(report_of("340m_deltanet.json",
                        {"schedule.kind=wsd", "schedule.decay_steps=2048"}),
              HasSubstr("step 18,432"));
  EXPECT_THAT(report_of("340m_deltanet.json",
                        {"schedule.kind=constant", "schedule.total_steps=null",
                         "schedule.min_lr_ratio=null"}),
              HasSubstr("Learning rate: constant, warm-up 1,024"));
}

TEST(DryRun, touches_nothing_on_disk) {
  const test::TempDir folder;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  const std::string text = report_of("340m_osdn_apf.json");
  std::filesystem::current_path(before);
  EXPECT_FALSE(text.empty());
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(DryRun, separators) {
  EXPECT_EQ(with_separators(0), "0");
  EXPECT_EQ(with_separators(999), "999");
  EXPECT_EQ(with_separators(1000), "1,000");
  EXPECT_EQ(with_separators(374583488), "374,583,488");
  EXPECT_EQ(with_separators(-123456), "-123,456");
  EXPECT_EQ(with_separators(-1234567), "-1,234,567");
}

}  // namespace
}  // namespace osdn::arch
