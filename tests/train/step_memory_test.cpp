// What a step really holds on a CPU, by LibTorch's own count of tensors, beside
// arch::estimate_memory: who makes an operator keep more, or a model form more,
// changes the estimate with it.

#include <c10/core/Allocator.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>

#include "osdn/arch/memory.h"
#include "osdn/train/host_state.h"
#include "osdn/train/pass_runner.h"
#include "osdn/train/train_step.h"

namespace osdn::train {
namespace {

using arch::Compute;
using config::LayerKind;
using config::ModelConfig;
using config::Retention;

/// Bytes of tensors, now and at most.
struct Count : c10::MemoryReportingInfoBase {
  void reportMemoryUsage(void* /*ptr*/, std::int64_t bytes, std::size_t,
                         std::size_t, c10::Device) override {
    now += bytes;
    most = std::max(most, now);
  }
  bool memoryProfilingEnabled() const override { return true; }

  std::int64_t now = 0;
  std::int64_t most = 0;
};

ModelConfig small(LayerKind layer) {
  ModelConfig model;
  model.layer = layer;
  model.vocab_size = 128;
  model.hidden_size = 96;
  model.num_layers = 4;
  model.num_heads = 3;
  model.intermediate_size = 256;
  if (layer == LayerKind::kGdn || layer == LayerKind::kKda) {
    model.num_heads = 2;
    model.head_dim = 32;
    model.num_v_heads = 4;
  }
  if (layer == LayerKind::kTransformer) {
    model.softmax.num_heads = 4;
    model.softmax.head_dim = 24;
  }
  return model;
}

data::StepBatch batch_of(const ModelConfig& model, const arch::Pass& pass) {
  data::StepBatch batch;
  for (std::int64_t i = 0; i < pass.micro_batches; ++i) {
    data::MicroBatch micro;
    for (std::int64_t t = 0; t < pass.tokens; ++t) {
      micro.tokens.push_back(
          static_cast<std::int32_t>(t * 7 % model.vocab_size));
    }
    micro.labels.assign(micro.tokens.begin(), micro.tokens.end());
    micro.valid_labels = pass.tokens;
    for (std::int64_t n = 0; n <= pass.documents; ++n) {
      micro.cu_seqlens.push_back(n * pass.tokens / pass.documents);
    }
    batch.valid_labels += pass.tokens;
    batch.micro_batches.push_back(std::move(micro));
  }
  return batch;
}

double counted(const ModelConfig& model_config, const arch::Pass& pass) {
  config::Config config;
  config.model = model_config;
  const auto count = std::make_shared<Count>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, count);
  model::LanguageModel model(
      config.model, pass.compute == Compute::kF64 ? at::kDouble : at::kFloat,
      at::kCPU);
  model.initialise(1);
  model.set_recompute(pass.recompute);
  std::vector<optim::OptimizedTensor> tensors;
  for (const model::ModelParameter& p : model.parameters()) {
    tensors.push_back({p.info.name, p.tensor, true});
  }
  optim::AdamW adamw(tensors, config.optimizer);
  PassRunner passes(model, config, true);
  train_step(passes, adamw, batch_of(config.model, pass), {1e-3, 1.0});
  const HostState to_save = whole_host_state(model, adamw);
  return static_cast<double>(count->most);
}

struct Case {
  std::string name;
  LayerKind layer;
  std::function<void(ModelConfig&)> change = [](ModelConfig&) {};
  std::function<void(arch::Pass&)> pass = [](arch::Pass&) {};
};

void scaled(ModelConfig& model, Retention retention) {
  model.preconditioner.enabled = true;
  model.preconditioner.retention = retention;
}

std::vector<Case> cases() {
  using enum LayerKind;
  const auto plain = [](ModelConfig&) {};
  return {
      {"deltanet", kDeltaNet},
      {"osdn", kDeltaNet, [](auto& m) { scaled(m, Retention::kNone); }},
      {"osdn_apf", kDeltaNet,
       [](auto& m) { scaled(m, Retention::kDataDependent); }},
      {"per head", kDeltaNet, [](auto& m) { scaled(m, Retention::kPerHead); }},
      {"gate", kDeltaNet, [](auto& m) { m.use_gate = true; }},
      {"no convolution", kDeltaNet, [](auto& m) { m.use_short_conv = false; }},
      {"no beta", kDeltaNet, [](auto& m) { m.use_beta = false; }},
      {"elu, sum", kDeltaNet,
       [](auto& m) {
         m.qk_activation = config::QkActivation::kElu;
         m.qk_norm = config::QkNorm::kSum;
       }},
      {"relu", kDeltaNet,
       [](auto& m) { m.qk_activation = config::QkActivation::kRelu; }},
      {"negative eigenvalues", kDeltaNet,
       [](auto& m) { m.allow_neg_eigval = true; }},
      {"tied head", kDeltaNet, [](auto& m) { m.tie_word_embeddings = true; }},
      {"gdn", kGdn},
      {"gdn osdn, tied retention", kGdn,
       [](auto& m) { scaled(m, Retention::kTied); }},
      {"kda", kKda},
      {"kda, bounded", kKda, [](auto& m) { m.lower_bound = -5.0; }},
      {"kda osdn_apf", kKda,
       [](auto& m) { scaled(m, Retention::kDataDependent); }},
      {"transformer", kTransformer},
      {"shared keys", kTransformer,
       [](auto& m) { m.softmax.num_kv_heads = 2; }},
      {"hybrid", kKda,
       [](auto& m) {
         m.softmax.layers = {1, 3};
         m.softmax.num_heads = 4;
         m.softmax.head_dim = 24;
       }},
      {"fp64", kGdn, plain, [](auto& p) { p.compute = Compute::kF64; }},
      {"recomputed", kDeltaNet,
       [](auto& m) { scaled(m, Retention::kDataDependent); },
       [](auto& p) { p.recompute = true; }},
      {"recomputed transformer", kTransformer, plain,
       [](auto& p) { p.recompute = true; }},
      {"several passes", kDeltaNet, plain,
       [](auto& p) { p.micro_batches = 3; }},
      {"saving", kDeltaNet, plain,
       [](auto& p) { p.tokens = 64, p.documents = 1; }},
      {"wide, few tokens", kDeltaNet,
       [](auto& m) {
         m.hidden_size = 192;
         m.vocab_size = 4000;
         m.num_layers = 2;
       },
       [](auto& p) { p.tokens = 512; }},
      {"large vocabulary", kDeltaNet, [](auto& m) { m.vocab_size = 6000; }},
  };
}

TEST(StepMemory, is_what_the_estimate_says) {
  for (const Case& c : cases()) {
    ModelConfig model = small(c.layer);
    c.change(model);
    arch::Pass pass;
    pass.machine = arch::Machine::kCpu;
    pass.compute = Compute::kF32;
    pass.tokens = 1024;
    pass.documents = 4;
    c.pass(pass);
    const double held = counted(model, pass);
    const arch::Memory memory = arch::estimate_memory(model, pass);
    EXPECT_NEAR(memory.total() / held, 1, 0.01)
        << c.name << ": " << memory.moment;
  }
}

}  // namespace
}  // namespace osdn::train
