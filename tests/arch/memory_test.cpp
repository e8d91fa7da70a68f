#include "osdn/arch/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "arch/small_model.h"
#include "osdn/arch/parameter_table.h"
#include "osdn/config/reader.h"

namespace osdn::arch {
namespace {

using config::LayerKind;
using config::ModelConfig;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

config::Config load(const std::string& name,
                    const std::vector<std::string>& overrides = {}) {
  return config::load(
      {std::string(OSDN_SOURCE_DIR) + "/configs/" + name + ".json", overrides});
}

ModelConfig shipped(const std::string& name) {
  return load(name).model;
}

/// A figure of osdn-bench train on an H200: LibTorch's most allocated bytes.
struct Measured {
  std::string config;
  std::int64_t tokens;
  double bytes;
  int ranks = 0;
  bool sharded = true;
  std::string reduce_dtype = "fp32";
  std::string gpu_exchange = "nccl";
  bool recompute = false;
};

double estimated(const Measured& m) {
  Pass pass;
  pass.tokens = m.tokens;
  pass.documents = m.tokens / 4096;
  pass.recompute = m.recompute;
  const ModelConfig model = shipped(m.config);
  if (m.ranks == 0) return estimate_memory(model, pass).total();
  config::DistConfig dist;
  dist.shard_optimizer = m.sharded;
  dist.reduce_dtype = m.reduce_dtype;
  dist.gpu_exchange = m.gpu_exchange;
  return estimate_rank_memory(model, dist, pass, m.ranks).total();
}

// docs/results: two_gpus.json, two_gpus_apart.json, two_gpus_peer.json (bytes)
// and h200.md (GiB, one digit behind the point).
std::vector<Measured> on_an_h200() {
  std::vector<Measured> all = {
      {"340m_deltanet", 65536, 67264579584},
      {"340m_osdn_apf", 65536, 71018944512},
      {"1.3b_deltanet", 32768, 81260333056},
      {"340m_osdn", 65536, 66.1 * kGiB},
      {"340m_gdn", 65536, 61.6 * kGiB},
      {"340m_kda", 65536, 81.4 * kGiB},
      {"340m_transformer", 65536, 50.6 * kGiB},
      {"340m_deltanet", 65536, 66521958912, 2},
      {"340m_deltanet", 65536, 65709111296, 2, true, "bf16"},
      {"340m_deltanet", 65536, 68704352256, 2, false},
      {"340m_deltanet", 65536, 67956684800, 2, false, "bf16"},
      {"340m_osdn_apf", 65536, 70208819200, 2},
      {"340m_osdn_apf", 65536, 69461413888, 2, true, "bf16"},
      {"340m_osdn_apf", 65536, 72459589632, 2, false},
      {"340m_osdn_apf", 65536, 71711332352, 2, false, "bf16"},
      {"1.3b_deltanet", 32768, 78404860416, 2},
      {"1.3b_deltanet", 32768, 75668601344, 2, true, "bf16"},
      {"1.3b_deltanet", 32768, 86592969216, 2, false},
      {"1.3b_deltanet", 32768, 83861580288, 2, false, "bf16"},
      {"340m_deltanet", 65536, 66653031936, 2, true, "fp32", "peer"},
      {"340m_osdn_apf", 65536, 70408054272, 2, true, "fp32", "peer"},
      {"1.3b_deltanet", 32768, 78535941632, 2, true, "fp32", "peer"},
  };
  all.push_back({"340m_osdn_apf", 65536, 15.4 * kGiB});
  all.back().recompute = true;
  return all;
}

TEST(Memory, is_that_of_measured_steps) {
  for (const Measured& m : on_an_h200()) {
    EXPECT_NEAR(estimated(m) / m.bytes, 1, 0.003)
        << m.config << ", " << m.ranks << " ranks, " << m.reduce_dtype;
  }
}

// Training runs of docs/results/h200.md on real text, rows of which --dry-run
// does not know the documents; osdn-train's "at most ... GiB of GPU memory".
TEST(Memory, of_a_dry_run_is_near_that_of_training_runs) {
  struct Run {
    const char* config;
    const char* tokens;
    double gib;
  };
  for (const Run& run : {Run{"340m_deltanet", "65536", 63.1},
                         Run{"340m_osdn_apf", "65536", 66.6},
                         Run{"1.3b_osdn_apf", "32768", 79.5}}) {
    const config::Config config =
        load(run.config, {std::string("data.sequence_length=") + run.tokens,
                          "training.global_batch=1"});
    const Pass pass = pass_of(config, Machine::kGpu, Compute::kBF16);
    const double ratio =
        estimate_memory(config.model, pass).total() / (run.gib * kGiB);
    EXPECT_NEAR(ratio, 1, 0.01) << run.config;
  }
}

// Most resident MiB of osdn-train, docs/memory.md: one thread, two steps and
// more, documents of 256 tokens. The allocator's share is what is uncertain.
TEST(Memory, is_near_the_resident_memory_of_cpu_runs) {
  struct Run {
    std::string config;
    std::int64_t tokens;
    double mib;
    std::int64_t passes = 1;
    bool recompute = false;
    std::vector<std::string> overrides{};
  };
  const std::vector<std::string> wide = {
      "model.num_layers=4", "model.hidden_size=1024", "model.num_heads=8",
      "model.intermediate_size=2816"};
  std::vector<std::string> deep = wide;
  deep[0] = "model.num_layers=10";
  const std::vector<Run> runs = {
      {"osdn_apf", 256, 196.9},
      {"osdn_apf", 4096, 636.7},
      {"osdn_apf", 16384, 1890.5},
      {"deltanet", 256, 198.6},
      {"deltanet", 4096, 618.3},
      {"deltanet", 16384, 1898.5},
      {"gdn", 256, 204.9},
      {"gdn", 4096, 692.1},
      {"gdn", 16384, 2111.1},
      {"gdn_osdn", 4096, 703.1},
      {"kda", 256, 204.9},
      {"kda", 4096, 717.0},
      {"kda", 16384, 2189.4},
      {"kda_osdn_apf", 4096, 735.8},
      {"transformer", 256, 200.3},
      {"transformer", 4096, 601.0},
      {"transformer", 16384, 1719.9},
      {"osdn_apf", 4096, 754.1, 4},
      {"osdn_apf", 8192, 1387.3, 8},
      {"osdn_apf", 16384, 2347.4, 2},
      {"deltanet", 4096, 783.3, 8},
      {"kda", 4096, 893.0, 4},
      {"osdn_apf", 4096, 458.7, 1, true},
      {"osdn_apf", 16384, 1202.0, 1, true},
      {"osdn_apf", 4096, 519.8, 4, true},
      {"deltanet", 4096, 3131.3, 1, false, wide},
      {"deltanet", 4096, 3735.1, 3, false, wide},
      {"osdn_apf", 2048, 2483.7, 3, false, wide},
      {"osdn_apf", 4096, 2667.1, 3, true, wide},
      {"osdn_apf", 4096, 8387.1, 3, false, deep},
  };
  for (const Run& run : runs) {
    Pass pass;
    pass.machine = Machine::kCpu;
    pass.compute = Compute::kF32;
    pass.tokens = run.tokens;
    pass.documents = run.tokens / 256;
    pass.micro_batches = run.passes;
    pass.recompute = run.recompute;
    const Memory memory = estimate_memory(
        load("quickstart_" + run.config, run.overrides).model, pass);
    const double ratio =
        (memory.total() + memory.program) / (run.mib * 1024 * 1024);
    EXPECT_GT(ratio, 0.95) << run.config << ", " << run.tokens;
    EXPECT_LT(ratio, 1.10) << run.config << ", " << run.tokens;
  }
}

Pass pass_on(Machine machine, Compute compute) {
  Pass pass;
  pass.machine = machine;
  pass.compute = compute;
  pass.tokens = 64;
  return pass;
}

struct Sizes {
  explicit Sizes(const ModelConfig& model) {
    for (const Parameter& p : parameter_table(model)) {
      const auto count = static_cast<double>(p.numel());
      all += count;
      fp32 += computes_in_fp32(p) ? count : 0;
    }
  }
  double all = 0;
  double fp32 = 0;
};

TEST(Memory, of_parameters_is_exact) {
  const ModelConfig model = test::small_model(LayerKind::kKda);
  const auto [all, fp32] = Sizes(model);
  const Memory single =
      estimate_memory(model, pass_on(Machine::kCpu, Compute::kF32));
  EXPECT_EQ(single.weights, 4 * all);
  EXPECT_EQ(single.optimizer, 8 * all);
  const Memory half =
      estimate_memory(model, pass_on(Machine::kGpu, Compute::kBF16));
  EXPECT_EQ(half.weights, 4 * all + 2 * (all - fp32));
  EXPECT_EQ(half.optimizer, 8 * all);
  const Memory twice =
      estimate_memory(model, pass_on(Machine::kCpu, Compute::kF64));
  EXPECT_EQ(twice.weights, 8 * all);
  EXPECT_EQ(twice.total(), twice.weights + twice.gradients + twice.optimizer +
                               twice.activations + twice.temporaries);
}

// train::Replica: each rank has its part of moments and masters, and buckets of
// all gradients.
TEST(Memory, of_a_rank_is_exact) {
  const ModelConfig model = test::small_model(LayerKind::kKda);
  const auto [all, fp32] = Sizes(model);
  ASSERT_GT(fp32, 0);
  config::DistConfig dist;
  dist.gpu_exchange = "nccl";
  const auto of_rank = [&](Compute compute) {
    const Machine machine =
        compute == Compute::kBF16 ? Machine::kGpu : Machine::kCpu;
    return estimate_rank_memory(model, dist, pass_on(machine, compute), 4);
  };
  Memory half = of_rank(Compute::kBF16);
  EXPECT_DOUBLE_EQ(half.optimizer, 2 * all);
  EXPECT_DOUBLE_EQ(half.weights, 4 * fp32 + (2 + 1) * (all - fp32));
  EXPECT_DOUBLE_EQ(half.buckets, 4 * all);
  // Those of head and last norm, whose bucket is not full.
  EXPECT_DOUBLE_EQ(half.gradients, 2 * 50 * 32 + 4 * 32);
  dist.bucket_mb = 0.001;
  EXPECT_DOUBLE_EQ(of_rank(Compute::kBF16).gradients, 4 * 32);
  dist.bucket_mb = 200;
  EXPECT_DOUBLE_EQ(of_rank(Compute::kF32).weights, 4 * all);
  EXPECT_DOUBLE_EQ(of_rank(Compute::kF64).buckets, 8 * all);
  dist.reduce_dtype = "bf16";
  EXPECT_DOUBLE_EQ(of_rank(Compute::kBF16).buckets,
                   2 * (all - fp32) + 4 * fp32);
  dist.shard_optimizer = false;
  half = of_rank(Compute::kBF16);
  const Memory alone =
      estimate_memory(model, pass_on(Machine::kGpu, Compute::kBF16));
  EXPECT_EQ(half.optimizer, alone.optimizer);
  EXPECT_EQ(half.weights, alone.weights);
  EXPECT_GT(half.program, alone.program);  // NCCL
}

// dist::PeerCollectives: the other ranks' shards of the largest bucket.
TEST(Memory, of_an_exchange_between_memories_has_a_window) {
  const ModelConfig model = shipped("340m_deltanet");
  config::DistConfig dist;
  dist.bucket_mb = 1;  // the head is the largest bucket, or the embedding
  const auto buckets = [&](const char* exchange, int ranks) {
    dist.gpu_exchange = exchange;
    const Pass pass = pass_on(Machine::kGpu, Compute::kBF16);
    return estimate_rank_memory(model, dist, pass, ranks).buckets;
  };
  EXPECT_DOUBLE_EQ(buckets("peer", 4) - buckets("nccl", 4),
                   4 * 32000.0 * 1024 * 3 / 4);
  EXPECT_EQ(buckets("auto", 4), buckets("peer", 4));
  EXPECT_EQ(buckets("peer", 1), buckets("nccl", 1));
  dist.bucket_mb = 400;
  EXPECT_GT(buckets("peer", 4) - buckets("nccl", 4), 400e6 * 3 / 4);
}

// Sums in fp32 from the third pass on; a recording keeps its gradients.
TEST(Memory, of_gradients_grows_with_passes_and_recordings) {
  const ModelConfig model = shipped("340m_deltanet");
  const auto [all, fp32] = Sizes(model);
  Pass pass = pass_on(Machine::kGpu, Compute::kBF16);
  pass.tokens = 65536;
  const double once = estimate_memory(model, pass).gradients;
  pass.micro_batches = 2;
  EXPECT_DOUBLE_EQ(estimate_memory(model, pass).gradients - once,
                   2 * (all - fp32) + 4 * fp32);
  pass.micro_batches = 3;
  EXPECT_DOUBLE_EQ(estimate_memory(model, pass).gradients - once, 4 * all);
  pass.recorded = true;
  EXPECT_DOUBLE_EQ(estimate_memory(model, pass).gradients,
                   4 * all + 2 * (all - fp32) + 4 * fp32);
}

double bytes_per_token(const ModelConfig& model, Compute compute) {
  double bytes = 0;
  for (const KeptTensor& tensor :
       kept_tensors(model, model.is_transformer(), Machine::kGpu, compute)) {
    bytes += tensor.token_bytes;
  }
  return bytes;
}

TEST(Memory, kept_tensors_by_hand) {
  // h = 1024: 12 tensors of it and two of SwiGLU's 2816 in bf16, of 8 heads
  // beta's product and beta, and chunks of 8 vectors and 2 matrices of 64.
  constexpr double kDelta =
      2 * (12 * 1024 + 2 * 2816) + 8 * (2 + 4) + 8 * (8 * 4 + 2 * 64 * 2);
  EXPECT_EQ(bytes_per_token(shipped("340m_deltanet"), Compute::kBF16), kDelta);
  // The write key, d every 16 tokens, s, r's product and r.
  EXPECT_EQ(bytes_per_token(shipped("340m_osdn_apf"), Compute::kBF16),
            kDelta + 2 * 1024 + 4 * 1024 / 16.0 + 8 * (4 + 2 + 4));
  // The plain version of other widths and of fp32 keeps its chunks in fp32.
  ModelConfig model = shipped("340m_deltanet");
  EXPECT_EQ(
      bytes_per_token(model, Compute::kF32),
      4 * (12 * 1024 + 2 * 2816) + 8 * (4 + 4) + 8 * (8 * 4 + 2 * 64 * 4));
  model.expand_k = 0.75;  // keys of 96
  EXPECT_EQ(bytes_per_token(model, Compute::kBF16),
            kDelta - 2 * 4 * 256 + 8 * 2 * 64 * 2);
}

TEST(Memory, a_pass_is_that_of_the_configuration) {
  config::Config config = load("340m_deltanet", {"training.recompute=true"});
  Pass pass = pass_of(config, Machine::kGpu, Compute::kBF16);
  EXPECT_EQ(pass.tokens, 65536);
  EXPECT_EQ(pass.documents, 64);
  EXPECT_EQ(pass.micro_batches, 8);
  EXPECT_TRUE(pass.recompute);
  EXPECT_FALSE(pass.recorded);
  EXPECT_EQ(pass_of(config, Machine::kGpu, Compute::kBF16, 4).micro_batches, 2);
  config.training.cuda_graph = "on";
  config.training.micro_batch = 2;
  pass = pass_of(config, Machine::kGpu, Compute::kBF16);
  EXPECT_TRUE(pass.recorded);
  EXPECT_EQ(pass.tokens, 131072);
  EXPECT_FALSE(pass_of(config, Machine::kCpu, Compute::kF32).recorded);
}

TEST(Memory, advice_names_the_keys_that_help) {
  config::TrainingConfig training;
  EXPECT_THAT(memory_advice(training), AllOf(HasSubstr("data.sequence_length"),
                                             HasSubstr("training.recompute")));
  training.micro_batch = 2;
  training.recompute = true;
  EXPECT_EQ(memory_advice(training), "lower training.micro_batch");
}

TEST(Memory, names) {
  EXPECT_EQ(name_of(Compute::kF32), "fp32");
  EXPECT_EQ(name_of(Compute::kF64), "fp64");
  EXPECT_EQ(name_of(Compute::kBF16), "bf16");
  EXPECT_EQ(name_of(Machine::kCpu), "a CPU");
  EXPECT_EQ(name_of(Machine::kGpu), "a GPU");
}

}  // namespace
}  // namespace osdn::arch
