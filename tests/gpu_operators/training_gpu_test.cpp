// Whole training runs on the GPU: beside the CPU's, twice, cut and resumed.

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "osdn/ops/gpu.h"
#include "osdn/train/run.h"
#include "train/poison.h"
#include "train/tiny_run.h"

namespace osdn::train {
namespace {

using test::fingerprints;
using test::TinyRun;

struct Kind {
  std::string name;
  std::vector<std::string> sets;
};
void PrintTo(const Kind& kind, std::ostream* out) {
  *out << kind.name;
}

std::vector<Kind> all_kinds() {
  std::vector<Kind> all;
  const std::vector<std::string> rests = {
      "model.preconditioner=null", "model.preconditioner.retention=none",
      "model.preconditioner.retention=data_dependent"};
  const std::vector<std::string> suffixes = {"", "_osdn", "_osdn_apf"};
  for (const std::string layer : {"deltanet", "gdn", "kda"}) {
    for (std::size_t i = 0; i < rests.size(); ++i) {
      std::vector<std::string> sets = {"model.layer=" + layer, rests[i]};
      if (layer != "deltanet") sets.push_back("model.head_dim=64");
      if (layer == "gdn") sets.push_back("model.expand_v=1");
      all.push_back({layer + suffixes[i], sets});
    }
  }
  all.push_back({"hybrid",
                 {"model.layer=deltanet", "model.preconditioner=null",
                  "model.softmax.layers=[1]", "model.softmax.num_heads=2"}});
  all.push_back({"transformer",
                 {"model.layer=transformer", "model.preconditioner=null",
                  "model.num_heads=null", "model.softmax.num_heads=2"}});
  return all;
}

/// Two layers of two heads of 64, so that the matrix units' kernels run.
class GpuTraining : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(ops::gpu().usable) << ops::gpu().why_not;
    tiny_.json["model"]["hidden_size"] = 128;
    tiny_.json["model"]["num_layers"] = 2;
    tiny_.json["model"]["intermediate_size"] = 192;
    tiny_.json["optimizer"]["lr"] = 0.002;
    tiny_.json["schedule"] = {{"total_steps", 60}, {"warmup_steps", 6}};
    tiny_.json["training"]["steps"] = 60;
    tiny_.json["training"]["validate_every"] = 30;
    tiny_.json["training"].erase("device");
    tiny_.json["training"].erase("dtype");
    tiny_.json["checkpoint"] = {{"every", 0}};
  }

  RunRequest request(const std::string& name,
                     std::vector<std::string> more) const {
    for (const std::string& set : GetParam().sets) more.push_back(set);
    return tiny_.request(name, more);
  }
  std::vector<report::StepRecord> train(const std::string& name,
                                        std::vector<std::string> more) const {
    run(request(name, std::move(more)));
    return tiny_.log(name);
  }

  static bool has_softmax() {
    return GetParam().name == "hybrid" || GetParam().name == "transformer";
  }

  TinyRun tiny_;
  test::LogCapture messages_;
};

double worst_difference(const std::vector<report::StepRecord>& a,
                        const std::vector<report::StepRecord>& b) {
  EXPECT_EQ(a.size(), b.size());
  double worst = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    worst = std::max(worst, std::abs(a[i].loss - b[i].loss) / b[i].loss);
  }
  return worst;
}

// In fp32 both round in the last of 24 bits, 6e-8; sixty updates of AdamW,
// whose normalisation magnifies differences of small gradients, make some 1e-5
// of it. In bf16 the loss of a step differs by its 2^-9, and the paths part
// slowly.
TEST_P(GpuTraining, follows_the_cpu) {
  const auto cpu = train("cpu", {"training.device=cpu"});
  const auto fp32 =
      train("fp32", {"training.device=cuda", "training.dtype=fp32"});
  const auto bf16 =
      train("bf16", {"training.device=cuda", "training.dtype=bf16"});
  EXPECT_LT(worst_difference(fp32, cpu), 1e-3);
  EXPECT_LT(worst_difference(bf16, cpu), 5e-2);
  ASSERT_TRUE(fp32.back().validation && cpu.back().validation);
  EXPECT_NEAR(fp32.back().validation->loss, cpu.back().validation->loss,
              1e-3 * cpu.back().validation->loss);
  EXPECT_LT(cpu.back().loss, cpu.front().loss - 0.5);
}

TEST_P(GpuTraining, gives_the_same_bits_twice_resumed_and_recomputed) {
  // A step in the middle is skipped as not finite.
  const GradientObserver poison = [](std::int64_t step,
                                     const model::LanguageModel& model) {
    if (step == 9) test::poison_gradient(model);
  };
  const std::vector<std::string> gpu = {
      "training.device=cuda", "training.steps=24", "training.validate_every=0"};
  const auto with = [&](std::vector<std::string> sets, const char* more) {
    sets.emplace_back(more);
    return sets;
  };
  RunRequest whole = request("whole", gpu);
  whole.observer = poison;
  run(whole);
  RunRequest again = request("again", with(gpu, "training.recompute=true"));
  again.observer = poison;
  run(again);
  RunRequest first = request("cut", with(gpu, "training.steps=11"));
  first.observer = poison;
  run(first);
  RunRequest second = request("cut", gpu);
  second.resume = ResumeMode::kAuto;
  run(second);
  const auto expected = fingerprints(tiny_.log("whole"), false);
  EXPECT_TRUE(tiny_.log("whole")[8].skipped);
  EXPECT_EQ(fingerprints(tiny_.log("again"), false), expected);
  EXPECT_EQ(fingerprints(tiny_.log("cut"), false), expected);
}

TEST_P(GpuTraining, micro_batches_make_the_same_step) {
  const std::vector<std::string> gpu = {
      "training.device=cuda", "training.dtype=fp32", "training.steps=10"};
  auto one = gpu, four = gpu;
  one.push_back("training.global_batch=4");
  one.push_back("training.micro_batch=4");
  four.push_back("training.global_batch=4");
  four.push_back("training.micro_batch=1");
  EXPECT_LT(worst_difference(train("one", one), train("four", four)), 1e-4);
}

// Rows of one length: recording changes not one bit, in one pass a step and in
// several, whose gradients are summed.
TEST_P(GpuTraining, gives_the_same_bits_when_recorded) {
  if (has_softmax()) GTEST_SKIP() << "softmax layers are not recorded";
  const auto shard = tiny_.folder() / "long.tokens";
  test::write_shard(shard, test::tiny_documents(4, 300));
  for (const char* micro :
       {"training.micro_batch=4", "training.micro_batch=1"}) {
    for (const char* dtype : {"training.dtype=bf16", "training.dtype=fp32"}) {
      const auto losses = [&](const std::string& graph) {
        RunRequest asked =
            request(graph, {"training.device=cuda", "training.steps=16",
                            "training.global_batch=4", "data.packing=stream",
                            "data.train=[\"" + shard.string() + "\"]", micro,
                            dtype, "training.cuda_graph=" + graph});
        asked.overwrite = true;
        asked.observer = [](std::int64_t step,
                            const model::LanguageModel& model) {
          if (step == 5) test::poison_gradient(model);
        };
        run(asked);
        return fingerprints(tiny_.log(graph), false);
      };
      EXPECT_EQ(losses("on"), losses("off")) << micro << " " << dtype;
    }
  }
}

// Ragged rows are filled up; a cut and resumed run takes the same path.
TEST_P(GpuTraining, records_ragged_rows) {
  if (has_softmax()) GTEST_SKIP() << "softmax layers are not recorded";
  const std::vector<std::string> on = {
      "training.device=cuda", "training.dtype=fp32", "training.steps=20",
      "training.cuda_graph=on"};
  const auto with = [](std::vector<std::string> sets, const char* more) {
    sets.emplace_back(more);
    return sets;
  };
  const auto recorded = train("whole", on);
  EXPECT_LT(worst_difference(
                recorded, train("plain", with(on, "training.cuda_graph=off"))),
            1e-4);
  run(request("cut", with(on, "training.steps=9")));
  RunRequest second = request("cut", with(on, "training.recompute=true"));
  second.resume = ResumeMode::kAuto;
  run(second);
  EXPECT_EQ(fingerprints(tiny_.log("cut"), false),
            fingerprints(tiny_.log("whole"), false));
}

INSTANTIATE_TEST_SUITE_P(Layers, GpuTraining, testing::ValuesIn(all_kinds()),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace osdn::train
