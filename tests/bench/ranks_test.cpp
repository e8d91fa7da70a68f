// osdn-bench with several ranks, started by mpirun on this machine's CPU: what
// it writes is what its model of many GPUs reads. Nothing here expects a time.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "osdn/bench/scaling_fit.h"
#include "osdn/core/file.h"
#include "support/json.h"
#include "support/mpirun.h"
#include "support/program.h"
#include "support/temp_dir.h"
#include "support/tiny_config.h"

namespace osdn::bench {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

class BenchRanks : public test::MpirunTest {
 protected:
  void SetUp() override {
    MpirunTest::SetUp();
    test::write_json(config_, test::tiny_config());
  }

  // What osdn-bench writes with so many ranks.
  json figures(int ranks, std::vector<std::string> arguments,
               const std::string& name) {
    std::vector<std::string> all = test::mpirun(ranks);
    all.push_back(OSDN_BIN_DIR "/osdn-bench");
    all.insert(all.end(), arguments.begin(), arguments.end());
    all.insert(all.end(), {"--json", file(name).string()});
    test::Program program(all);
    EXPECT_EQ(program.wait(), 0) << program.err();
    out_ = program.out();
    return json::parse(read_file(file(name)));
  }

  json train(int ranks, const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {
        "train",   "--config", config_.string(),
        "--steps", "3",        "--document-tokens",
        "20"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return figures(ranks, arguments, "train.json");
  }

  fs::path file(const std::string& name) const { return folder_ / name; }

  test::TempDir folder_;
  const fs::path config_ = folder_ / "tiny.json";
  std::string out_;
};

TEST_F(BenchRanks, steps_are_measured_alone_at_once_and_linked) {
  const json steps =
      train(2, {"--tokens", "40,80", "--every-exchange"})["training"];
  ASSERT_EQ(steps.size(), 12U);  // two numbers of tokens, six companies
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const json& step = steps[i];
    const std::size_t company = i % 6;
    EXPECT_EQ(step["tokens_per_step"], i < 6 ? 40 : 80);
    EXPECT_EQ(step["ranks"], company < 2 ? 1 : 2);
    EXPECT_EQ(step.value("ranks_at_once", 1), company == 1 ? 2 : 1);
    ASSERT_EQ(step["of_ranks"].size(), company == 0 ? 1U : 2U);
    double slowest = 0;
    for (const json& rank : step["of_ranks"]) {
      slowest = std::max(slowest, rank["step_s"].get<double>());
      EXPECT_GT(rank["update_s"], 0);
      EXPECT_LT(rank["update_s"], rank["step_s"]);
      ASSERT_EQ(rank.contains("gradients_wait_s"), company > 1);
      if (company < 2) continue;
      EXPECT_GT(rank["gradients_wait_s"], 0);
      EXPECT_EQ(rank["weights_wait_s"] > 0, step["shard_optimizer"]);
    }
    EXPECT_EQ(step["step_s"], slowest);
    if (company == 0) continue;
    EXPECT_EQ(step["of_ranks"][step["slowest_rank"].get<int>()]["step_s"],
              slowest);
    if (company == 1) continue;
    EXPECT_EQ(step["one_rank_step_s"], steps[i - company]["step_s"]);
    EXPECT_EQ(step["slowest_apart_step_s"], steps[i - company + 1]["step_s"]);
    EXPECT_NEAR(step["exposed_share"].get<double>(),
                1 - step["slowest_apart_step_s"].get<double>() / slowest,
                1e-12);
  }
  EXPECT_THAT(out_, HasSubstr("none, all at once"));
  EXPECT_THAT(out_, HasSubstr("whole bf16, 200 MB, mpi"));
  EXPECT_THAT(out_, HasSubstr("slowest"));
}

// What is measured, and what it is compared with, can be told from the file.
TEST_F(BenchRanks, what_was_overridden_is_written_and_read) {
  const json overridden = {"model.num_layers=2", "dist.bucket_mb=3"};
  const json steps = train(2, {"--tokens", "40", "--set", overridden[0],
                               "--set", overridden[1]})["training"];
  ASSERT_EQ(steps.size(), 3U);
  for (const json& step : steps) {
    EXPECT_EQ(step["config"], config_.string());
    EXPECT_EQ(step["set"], overridden);
    EXPECT_EQ(step["document_tokens"], 20);
  }
  EXPECT_EQ(steps[2]["bucket_mb"], 3);
  const Measurements measured = read_measurements(file("train.json"));
  EXPECT_EQ(json(measured.steps[0].overrides), overridden);
  EXPECT_EQ(measured.steps[0].dist.bucket_mb, 3);
  const auto scaling = [&](const std::string& layers) {
    return std::vector<std::string>{OSDN_BIN_DIR "/osdn-bench",
                                    "scaling",
                                    "--config",
                                    config_.string(),
                                    "--gpus",
                                    "1,2",
                                    "--gpus-per-host",
                                    "1",
                                    "--set",
                                    "model.num_layers=" + layers,
                                    "--measured",
                                    file("train.json").string(),
                                    "--json",
                                    file("scaling.json").string()};
  };
  test::Program same(scaling("2"));
  EXPECT_EQ(same.wait(), 0) << same.err();
  EXPECT_EQ(json::parse(read_file(file("scaling.json")))["scaling"][0]["set"],
            json({"model.num_layers=2"}));
  test::Program other(scaling("1"));
  EXPECT_EQ(other.wait(), 2);
  EXPECT_THAT(other.err(), HasSubstr("with --set model.num_layers=1"));

  const json generated = figures(
      1,
      {"generate", "--config", config_.string(), "--sequences", "1",
       "--prompt-tokens", "8", "--new-tokens", "2", "--set", overridden[0]},
      "generate.json")["generation"][0];
  EXPECT_EQ(generated["set"], json({overridden[0]}));
}

// The loss is a sum over all ranks and passes, whatever their number.
TEST_F(BenchRanks, passes_and_ranks_share_a_step) {
  const json one = train(1, {"--tokens", "80"})["training"];
  const json two =
      train(2, {"--tokens", "80", "--micro-batches", "2"})["training"];
  ASSERT_EQ(one.size(), 2U);  // alone, and linked with no one
  ASSERT_EQ(two.size(), 3U);
  EXPECT_EQ(two[2]["micro_batches"], 2);
  for (const json& step : {one[1], two[2]}) {
    EXPECT_NEAR(step["loss_first"].get<double>(), std::log(50), 0.3);
  }
}

TEST_F(BenchRanks, what_is_written_is_what_the_fit_reads) {
  train(2, {"--tokens", "40", "--every-exchange"});
  const json collectives =
      figures(2, {"collectives", "--mb", "0.01,0.2", "--runs", "3"},
              "collectives.json")["collectives"];
  ASSERT_EQ(collectives.size(), 12U);
  std::map<std::string, std::set<std::string>> types;
  for (const json& entry : collectives) {
    types[entry["operation"]].insert(entry["dtype"]);
    // Whole shards of 64 elements.
    EXPECT_GE(entry["bytes"], 10000);
    EXPECT_EQ(entry["bytes"].get<int>() % (2 * 64 * 2), 0);
  }
  EXPECT_EQ(types.size(), 3U);
  for (const auto& [operation, of] : types) EXPECT_EQ(of.size(), 2U);

  const Measurements measured =
      read_measurements({file("train.json"), file("collectives.json")});
  EXPECT_GT(measured.copy_bytes_per_s, 0);
  ASSERT_EQ(measured.steps.size(), 6U);
  ASSERT_EQ(measured.transfers.size(), collectives.size());
  for (std::size_t i = 0; i < collectives.size(); ++i) {
    const MeasuredTransfer& transfer = measured.transfers[i];
    EXPECT_EQ(transfer.ranks, 2);
    EXPECT_EQ(transfer.hosts, 1);
    EXPECT_EQ(transfer.bytes, collectives[i]["bytes"]);
    EXPECT_EQ(transfer.seconds, collectives[i]["seconds"]);
    EXPECT_EQ(transfer.all_reduce, collectives[i]["operation"] == "all_reduce");
  }
  const ScalingFit fit = fit_scaling(measured, {});
  EXPECT_EQ(fit.points.size(), 4U + collectives.size());

  test::Program program(
      {OSDN_BIN_DIR "/osdn-bench", "scaling", "--config", config_.string(),
       "--measured", file("train.json").string(), "--fit",
       file("train.json").string() + "," + file("collectives.json").string()});
  EXPECT_EQ(program.wait(), 0) << program.err();
  EXPECT_THAT(program.out(), HasSubstr("sum of 0.2"));
}

TEST_F(BenchRanks, mistakes_are_said_once) {
  std::vector<std::string> two = test::mpirun(2);
  two.insert(two.end(),
             {OSDN_BIN_DIR "/osdn-bench", "train", "--config", config_.string(),
              "--tokens", "9", "--micro-batches", "2"});
  test::Program program(two);
  EXPECT_NE(program.wait(), 0);
  const std::string err = program.err();
  const std::string said = "9 tokens a step do not make 2 micro-batches";
  EXPECT_THAT(err, HasSubstr(said));
  EXPECT_EQ(err.find(said), err.rfind(said));
  test::Program alone({OSDN_BIN_DIR "/osdn-bench", "collectives"});
  EXPECT_EQ(alone.wait(), 2);
  EXPECT_THAT(alone.err(), HasSubstr("mpirun -n"));
  for (const char* option : {"--every-exchange", "--gpu-exchange=peer"}) {
    test::Program unused({OSDN_BIN_DIR "/osdn-bench", "train", "--config",
                          config_.string(), option});
    EXPECT_EQ(unused.wait(), 2);
    EXPECT_THAT(unused.err(), HasSubstr("has no effect without ranks"));
  }
}

}  // namespace
}  // namespace osdn::bench
