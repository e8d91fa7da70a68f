#include "osdn/bench/scaling_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>

#include "osdn/config/reader.h"
#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "support/message_of.h"
#include "support/program.h"
#include "support/temp_dir.h"

namespace osdn::bench {
namespace {

using testing::HasSubstr;

Cluster hidden_cluster() {
  Cluster cluster;
  cluster.intra = {250e9, 6e-6};
  cluster.inter = {30e9, 25e-6};
  cluster.slowdown = 0.06;
  cluster.stall_s = 4e-5;
  cluster.overhead_s = 2e-3;
  return cluster;
}

/// What that cluster would measure.
MeasuredTransfer transfer(int ranks, int hosts, double bytes,
                          double error = 0) {
  Cluster cluster = hidden_cluster();
  cluster.gpus_per_host = ranks / hosts;
  return {ranks, hosts, bytes,
          collective_seconds(cluster, ranks, bytes) * (1 + error)};
}

void add_steps(Measurements& measured, std::int64_t tokens, int ranks,
               int hosts) {
  const config::Config config = config::load({"340m_deltanet.json", {}});
  MeasuredStep one;
  one.config = "340m_deltanet.json";
  one.dist = config.dist;
  one.tokens = tokens;
  one.step_s = 0.008 + 0.3 * static_cast<double>(tokens) / 65536;
  measured.steps.push_back(one);
  ScalingCase scaling;
  scaling.model = config.model;
  scaling.tokens = tokens;
  scaling.compute =
      split_step(config.model, one.step_s, measured.copy_bytes_per_s);
  for (const char* reduce : {"fp32", "bf16"}) {
    for (const bool sharded : {false, true}) {
      for (const double bucket_mb : {5.0, 100.0}) {
        MeasuredStep step = one;
        step.ranks = ranks;
        step.hosts = hosts;
        step.dist.reduce_dtype = reduce;
        step.dist.shard_optimizer = sharded;
        step.dist.bucket_mb = bucket_mb;
        scaling.dist = step.dist;
        Cluster cluster = hidden_cluster();
        cluster.gpus_per_host = ranks / hosts;
        step.step_s = simulate_step(scaling, cluster, ranks).step_s;
        measured.steps.push_back(step);
      }
    }
  }
}

/// Within `part` of the value.
void expect_close(double value, double right, double part) {
  EXPECT_NEAR(value, right, right * part);
}

// The pull towards the start, w = 0.0025, moves a logarithm x whose effect on
// the points is J (relative, each) by w^2 (x - start) / J^T J: for links, with
// J^T J of about 1 and a distance below 1.5, by less than 1e-4.
TEST(ScalingFit, finds_the_links_that_made_the_figures) {
  Measurements measured;
  for (const double bytes : {1e4, 1e6, 25e6, 4e8}) {
    measured.transfers.push_back(transfer(2, 1, bytes));
    measured.transfers.push_back(transfer(16, 2, bytes));
  }
  const ScalingFit fit = fit_scaling(measured, {});
  expect_close(fit.cluster.intra.bytes_per_s, 250e9, 1e-3);
  expect_close(fit.cluster.intra.latency_s, 6e-6, 1e-3);
  expect_close(fit.cluster.inter.bytes_per_s, 30e9, 1e-3);
  expect_close(fit.cluster.inter.latency_s, 25e-6, 1e-3);
  EXPECT_LT(fit.max_error, 1e-3);
  ASSERT_EQ(fit.values.size(), 4U);
  for (const FittedValue& value : fit.values) EXPECT_TRUE(value.determined);
  EXPECT_EQ(fit.points.size(), 8U);
  EXPECT_EQ(fit.cluster.slowdown, 0);
}

// Steps alone: short ones show the links, small buckets what each costs. Here
// J^T J is as small as 5e-5 (the latency: a hop of a step of 40 ms), which
// gives the pull above a tenth.
TEST(ScalingFit, finds_them_from_steps) {
  Measurements measured;
  measured.copy_bytes_per_s = 4e12;
  add_steps(measured, 1024, 2, 1);
  add_steps(measured, 16384, 2, 1);
  add_steps(measured, 65536, 2, 1);
  const ScalingFit fit = fit_scaling(measured, {});
  expect_close(fit.cluster.intra.bytes_per_s, 250e9, 0.05);
  expect_close(fit.cluster.intra.latency_s, 6e-6, 0.2);
  expect_close(fit.cluster.slowdown, 0.06, 0.15);
  expect_close(fit.cluster.stall_s, 4e-5, 0.05);
  expect_close(fit.cluster.overhead_s, 2e-3, 0.05);
  EXPECT_LT(fit.max_error, 1e-3);
  // Nothing was measured between hosts.
  EXPECT_EQ(fit.cluster.inter.bytes_per_s, Cluster().inter.bytes_per_s);
  EXPECT_EQ(fit.points.size(), 24U);
}

TEST(ScalingFit, takes_the_runs_of_the_exchange_that_is_modelled) {
  Measurements measured;
  for (const double bytes : {1e4, 1e6, 25e6, 4e8}) {
    measured.transfers.push_back(transfer(2, 1, bytes));
    measured.transfers.push_back(measured.transfers.back());
    measured.transfers.back().peer = true;
    measured.transfers.back().seconds += bytes / 2 * (1 / 350e9 - 1 / 250e9);
  }
  expect_close(fit_scaling(measured, {}).cluster.intra.bytes_per_s, 250e9,
               1e-3);
  Cluster peer;
  peer.algorithm = Algorithm::kPeer;
  const ScalingFit fit = fit_scaling(measured, peer);
  expect_close(fit.cluster.intra.bytes_per_s, 350e9, 1e-3);
  EXPECT_EQ(fit.points.size(), 4U);
  measured.transfers.clear();
  measured.transfers.push_back(transfer(2, 1, 1e6));
  EXPECT_THAT(test::message_of([&] { fit_scaling(measured, peer); },
                               ExitCode::kBadInput),
              HasSubstr("no steps of several ranks among the measurements, "
                        "\"exchange\" peer"));
}

TEST(ScalingFit, states_the_error_of_noisy_figures) {
  Measurements measured;
  double sign = 0.05;
  for (const double bytes : {1e4, 3e4, 1e6, 3e6, 25e6, 1e8, 4e8}) {
    measured.transfers.push_back(transfer(2, 1, bytes, sign));
    sign = -sign;
  }
  const ScalingFit fit = fit_scaling(measured, {});
  EXPECT_GT(fit.rms_error, 0.03);
  EXPECT_LT(fit.rms_error, 0.06);
  EXPECT_GE(fit.max_error, fit.rms_error);
  EXPECT_GT(fit.values[0].error, 0.01);
  EXPECT_NEAR(fit.values[0].value, 250e9, 250e9 * 4 * fit.values[0].error);
  double squares = 0;
  for (const FittedPoint& point : fit.points) {
    squares += point.error() * point.error();
  }
  EXPECT_NEAR(fit.rms_error, std::sqrt(squares / 7), 1e-12);
}

// A network a thousand times slower than the one that is begun with.
TEST(ScalingFit, finds_links_of_another_order_of_magnitude) {
  Measurements measured;
  Cluster slow = hidden_cluster();
  slow.intra = {2e8, 5e-5};
  slow.gpus_per_host = 2;
  for (const double bytes : {1e3, 1e5, 1e7}) {
    measured.transfers.push_back(
        {2, 1, bytes, collective_seconds(slow, 2, bytes)});
  }
  const ScalingFit fit = fit_scaling(measured, {});
  EXPECT_NEAR(fit.cluster.intra.bytes_per_s, 2e8, 2e8 * 1e-3);
  EXPECT_NEAR(fit.cluster.intra.latency_s, 5e-5, 5e-5 * 1e-3);
}

TEST(ScalingFit, leaves_what_no_figure_depends_on) {
  Measurements measured;
  measured.transfers.push_back(transfer(2, 1, 1e13));
  measured.transfers.push_back(transfer(2, 1, 2e13));
  const ScalingFit fit = fit_scaling(measured, {});
  ASSERT_EQ(fit.values.size(), 2U);
  EXPECT_TRUE(fit.values[0].determined);
  EXPECT_FALSE(fit.values[1].determined);
  EXPECT_DOUBLE_EQ(fit.cluster.intra.latency_s, Cluster().intra.latency_s);
}

TEST(ScalingFit, needs_something_to_fit) {
  Measurements measured = h200_measurements();
  EXPECT_THAT(
      test::message_of([&] { fit_scaling(measured, {}); }, ExitCode::kBadInput),
      HasSubstr("several ranks"));
  MeasuredStep step = measured.steps.front();
  step.ranks = 2;
  step.tokens = 32768;  // which no one measured alone
  measured.steps.push_back(step);
  EXPECT_THAT(
      test::message_of([&] { fit_scaling(measured, {}); }, ExitCode::kUsage),
      HasSubstr("32768 tokens"));
}

// Ranks that train together are as slow as the slowest of them apart.
TEST(ScalingFit, compares_a_step_with_the_nearest_one_apart) {
  MeasuredStep linked;
  linked.config = "340m_deltanet.json";
  linked.tokens = 1024;
  linked.ranks = 2;
  linked.micro_batches = 4;
  std::vector<MeasuredStep> steps;
  const auto add = [&](double step_s, int at_once, int micro_batches) {
    MeasuredStep one = linked;
    one.ranks = 1;
    one.ranks_at_once = at_once;
    one.micro_batches = micro_batches;
    one.step_s = step_s;
    steps.push_back(one);
  };
  const auto nearest = [&] { return reference_of(steps, linked).step_s; };
  add(9, 3, 4);  // of three ranks
  EXPECT_THROW(nearest(), Error);
  EXPECT_THROW(reference_of(steps, {linked.config, {}}, 0), Error);
  add(1, 1, 1);
  EXPECT_EQ(nearest(), 1);
  add(2, 2, 1);
  EXPECT_EQ(nearest(), 2);
  add(3, 1, 4);
  EXPECT_EQ(nearest(), 3);
  add(4, 2, 4);
  EXPECT_EQ(nearest(), 4);
  EXPECT_EQ(reference_of(steps, {linked.config, {}}, 0).step_s, 1);
}

// A step of another model, or computed in another way, is none to compare with;
// what ranks exchange has no part in it.
TEST(ScalingFit, compares_what_was_measured_with_the_same_overrides) {
  MeasuredStep one;
  one.config = "340m_deltanet.json";
  one.tokens = 1024;
  std::vector<MeasuredStep> steps;
  const auto add = [&](double step_s, std::vector<std::string> overrides) {
    one.step_s = step_s;
    one.overrides = std::move(overrides);
    steps.push_back(one);
  };
  add(1, {});
  add(2, {"model.num_layers=2"});
  add(3, {"dist.bucket_mb=9", "model.num_layers=1", "model.num_layers=4"});
  const auto found = [&](std::vector<std::string> overrides) {
    return reference_of(steps, {"340m_deltanet", std::move(overrides)}, 0)
        .step_s;
  };
  EXPECT_EQ(found({}), 1);
  EXPECT_EQ(found({"dist.reduce_dtype=bf16"}), 1);
  EXPECT_EQ(found({"model.num_layers=2", "dist.bucket_mb=1"}), 2);
  EXPECT_EQ(found({"model.num_layers=4"}), 3);
  EXPECT_THAT(
      test::message_of([&] { found({"model.num_layers=3"}); },
                       ExitCode::kUsage),
      testing::AllOf(HasSubstr("for 340m_deltanet with --set "
                               "model.num_layers=3; there are: 340m_deltanet "
                               "of 1024 tokens, 340m_deltanet with --set "
                               "model.num_layers=2 of")));
  MeasuredStep linked = one;
  linked.ranks = 2;
  linked.overrides = {"model.num_layers=2"};
  EXPECT_EQ(reference_of(steps, linked).step_s, 2);
}

TEST(ScalingFit, takes_a_sum_for_two_exchanges) {
  Measurements measured;
  for (const double bytes : {1e4, 1e6, 25e6, 4e8}) {
    MeasuredTransfer sum = transfer(2, 1, bytes);
    sum.seconds *= 2;
    sum.all_reduce = true;
    measured.transfers.push_back(sum);
  }
  const ScalingFit fit = fit_scaling(measured, {});
  expect_close(fit.cluster.intra.bytes_per_s, 250e9, 1e-3);
  EXPECT_LT(fit.max_error, 1e-3);
}

// docs/scaling.md says how well the model fits what was measured on two GPUs.
TEST(ScalingFit, explains_the_steps_of_two_gpus) {
  const ScalingFit fit =
      fit_scaling(read_measurements(std::string(OSDN_SOURCE_DIR) +
                                    "/docs/results/two_gpus.json"),
                  {});
  EXPECT_GE(fit.points.size(), 14U);
  EXPECT_LT(fit.rms_error, 0.005);
  EXPECT_LT(fit.max_error, 0.011);
}

TEST(SplitStep, is_whole_again) {
  const config::Config config = config::load({"340m_deltanet.json", {}});
  // 30 bytes for each of 374,362,112 parameters, in a tenth of a second.
  const StepCompute compute = split_step(config.model, 0.4, 300 * 374362112.0);
  EXPECT_DOUBLE_EQ(compute.optimizer_s, 0.1);
  EXPECT_DOUBLE_EQ(compute.forward_s, 0.1);
  EXPECT_DOUBLE_EQ(compute.backward_s, 0.2);
  EXPECT_THROW(split_step(config.model, 0.1, 300 * 374362112.0), Error);
}

// The table of docs/results/h200.md is where the figures come from.
TEST(H200Measurements, are_those_of_the_page) {
  const std::map<std::string, std::string> titles = {
      {"DeltaNet 340M", "340m_deltanet"},
      {"OSDN 340M", "340m_osdn"},
      {"OSDN-APF 340M", "340m_osdn_apf"},
      {"GDN 340M", "340m_gdn"},
      {"KDA 340M", "340m_kda"},
      {"Transformer 340M", "340m_transformer"},
      {"DeltaNet 1.3B", "1.3b_deltanet"}};
  const Measurements measured = h200_measurements();
  const std::string page =
      read_file(std::string(OSDN_SOURCE_DIR) + "/docs/results/h200.md");
  const std::regex row(
      R"(^\| ([^|]+) \| ([0-9.]+) \| [0-9.]+ k \| ([0-9.]+) GiB \|)");
  std::istringstream lines(page);
  std::string line;
  std::size_t seen = 0;
  while (std::getline(lines, line)) {
    std::smatch match;
    if (!std::regex_search(line, match, row)) continue;
    const auto title = titles.find(match[1]);
    if (title == titles.end()) continue;
    const MeasuredStep step =
        reference_of(measured.steps, {title->second, {}}, 0);
    EXPECT_DOUBLE_EQ(step.step_s, std::stod(match[2]) * 1e-3) << line;
    EXPECT_DOUBLE_EQ(step.memory_bytes, std::stod(match[3]) * (1 << 30));
    ++seen;
  }
  EXPECT_EQ(seen, measured.steps.size());
  EXPECT_THAT(page, HasSubstr(concat("copy ", measured.copy_bytes_per_s / 1e12,
                                     " TB/s")));
  for (const MeasuredStep& step : measured.steps) {
    EXPECT_NO_THROW(config::load({step.config, {}})) << step.config;
  }
}

class MeasurementsFile : public testing::Test {
 protected:
  std::string write(const std::string& text) {
    const auto path = folder_ / "runs.json";
    std::ofstream(path) << text;
    return path.string();
  }
  std::string message(const std::string& text) {
    const std::string path = write(text);
    return test::message_of([&] { read_measurements(path); },
                            ExitCode::kBadInput);
  }

  test::TempDir folder_;
};

TEST_F(MeasurementsFile, is_read) {
  const Measurements measured = read_measurements(write(R"({
    "device": "a GPU", "copy_bytes_per_s": 4e12,
    "training": [
      {"config": "340m_osdn_apf.json", "tokens_per_step": 65536, "step_s": 0.3,
       "memory_bytes": 7e10, "parameters": 1},
      {"config": "340m_osdn_apf.json", "tokens_per_step": 262144,
       "step_s": 0.35, "ranks": 4, "hosts": 2, "micro_batches": 2,
       "reduce_dtype": "bf16", "shard_optimizer": false, "bucket_mb": 100}],
    "collectives": [{"ranks": 4, "hosts": 2, "bytes": 1e6, "seconds": 1e-4}]
  })"));
  EXPECT_EQ(measured.copy_bytes_per_s, 4e12);
  ASSERT_EQ(measured.steps.size(), 2U);
  EXPECT_EQ(measured.steps[0].ranks, 1);
  EXPECT_EQ(measured.steps[0].memory_bytes, 7e10);
  const MeasuredStep& step = measured.steps[1];
  EXPECT_EQ(step.ranks, 4);
  EXPECT_EQ(step.hosts, 2);
  EXPECT_EQ(step.tokens, 262144);
  EXPECT_EQ(step.micro_batches, 2);
  EXPECT_EQ(step.dist.reduce_dtype, "bf16");
  EXPECT_FALSE(step.dist.shard_optimizer);
  EXPECT_EQ(step.dist.bucket_mb, 100);
  ASSERT_EQ(measured.transfers.size(), 1U);
  EXPECT_EQ(measured.transfers[0].hosts, 2);
  EXPECT_EQ(measured.transfers[0].seconds, 1e-4);
}

TEST_F(MeasurementsFile, that_is_wrong_is_refused_with_the_place) {
  const std::string good =
      R"("config": "340m_osdn.json", "tokens_per_step": 64, "step_s": 0.3)";
  const auto training = [&](const std::string& more) {
    return message("{\"training\": [{" + good + "}, {" + more + "}]}");
  };
  EXPECT_THAT(message("{"), HasSubstr("runs.json"));
  EXPECT_THAT(message("[]"), HasSubstr("is no object"));
  EXPECT_THAT(message("{}"), HasSubstr("neither \"training\" nor"));
  EXPECT_THAT(message("{\"training\": 3}"), HasSubstr("is no list"));
  EXPECT_THAT(message("{\"training\": [3]}"), HasSubstr("/training/0"));
  EXPECT_THAT(training(""), HasSubstr("/training/1 has no text \"config\""));
  EXPECT_THAT(training(R"("config": "340m_osdn.json", "tokens_per_step": 1.5)"),
              HasSubstr("whole number"));
  EXPECT_THAT(training(R"("config": "340m_osdn.json", "tokens_per_step": 64,
                          "step_s": -1)"),
              HasSubstr("above 0"));
  EXPECT_THAT(training(good + R"(, "reduce_dtype": "fp8")"),
              HasSubstr("neither fp32 nor bf16"));
  EXPECT_THAT(training(good + R"(, "shard_optimizer": 1)"),
              HasSubstr("neither true nor false"));
  EXPECT_THAT(training(good + R"(, "ranks": 3, "hosts": 2)"),
              HasSubstr("3 ranks on 2 hosts"));
  EXPECT_THAT(message(R"({"collectives": [{"ranks": 1, "bytes": 1,
                                           "seconds": 1}]})"),
              HasSubstr("/collectives/0"));
  EXPECT_THAT(message(R"({"collectives": [{"ranks": 2, "bytes": 1, "seconds": 1,
                                           "operation": "broadcast"}]})"),
              HasSubstr("\"broadcast\"; it must be reduce_scatter"));
  EXPECT_THAT(training(good + R"(, "exchange": "telepathy")"),
              HasSubstr("\"telepathy\"; it must be peer, nccl or mpi"));
  EXPECT_THAT(training(good + R"(, "set": ["nonsense"])"),
              AllOf(HasSubstr("/training/"), HasSubstr("do not load")));
}

class ScalingProgram : public MeasurementsFile {
 protected:
  int run(const std::vector<std::string>& arguments) {
    std::vector<std::string> all = {OSDN_BIN_DIR "/osdn-bench", "scaling"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    test::Program program(all);
    const int code = program.wait();
    out_ = program.out();
    err_ = program.err();
    return code;
  }
  std::string out_;
  std::string err_;
};

TEST_F(ScalingProgram, prints_and_writes_its_table) {
  const std::string file = (folder_ / "out.json").string();
  ASSERT_EQ(run({"--config", "340m_deltanet.json,1.3b_deltanet.json", "--set",
                 "dist.bucket_mb=100", "--json", file}),
            0)
      << err_;
  EXPECT_THAT(out_, HasSubstr("buckets of 100 MB"));
  EXPECT_THAT(out_, HasSubstr("1024"));
  const auto json = nlohmann::json::parse(read_file(file));
  ASSERT_EQ(json["scaling"].size(), 2U);
  const auto& points = json["scaling"][0]["points"];
  ASSERT_EQ(points.size(), 9U);
  EXPECT_NEAR(points[0]["step_s"].get<double>(), 0.314, 1e-9);
  EXPECT_EQ(points[8]["gpus"], 1024);
  EXPECT_GT(points[8]["communication_s"], points[1]["communication_s"]);
  EXPECT_EQ(json["cluster"]["algorithm"], "ring");
}

TEST_F(ScalingProgram, fits_first_and_then_uses_it) {
  nlohmann::json measured;
  for (const double bytes : {1e4, 1e6, 25e6}) {
    const MeasuredTransfer t = transfer(2, 1, bytes);
    measured["collectives"].push_back(
        {{"ranks", 2}, {"bytes", bytes}, {"seconds", t.seconds}});
    measured["collectives"].push_back({{"ranks", 2},
                                       {"bytes", bytes},
                                       {"seconds", t.seconds / 3},
                                       {"exchange", "peer"}});
  }
  const std::string file = (folder_ / "out.json").string();
  ASSERT_EQ(run({"--config", "340m_osdn.json", "--gpus", "8", "--fit",
                 write(measured.dump()), "--json", file}),
            0)
      << err_;
  EXPECT_THAT(out_, HasSubstr("root mean square"));
  const auto json = nlohmann::json::parse(read_file(file));
  EXPECT_NEAR(json["cluster"]["intra_bytes_per_s"].get<double>(), 250e9, 1e8);
  EXPECT_EQ(json["fit"]["points"].size(), 3U);
}

TEST_F(ScalingProgram, says_what_it_lacks) {
  EXPECT_EQ(run({"--config", "1.3b_kda.json"}), 2);
  EXPECT_THAT(err_, HasSubstr("no step of one GPU is known for 1.3b_kda.json"));
  EXPECT_EQ(run({"--config", "1.3b_kda.json", "--step-ms", "500"}), 2);
  EXPECT_THAT(err_, HasSubstr("--tokens"));
  EXPECT_EQ(run({"--config", "1.3b_kda.json", "--step-ms", "500", "--tokens",
                 "32768", "--gpus", "8"}),
            0)
      << err_;
  EXPECT_EQ(run({"--config", "340m_osdn.json", "--gpus", "12"}), 2);
  EXPECT_THAT(err_, HasSubstr("12 GPUs do not fill hosts of 8"));
}

}  // namespace
}  // namespace osdn::bench
