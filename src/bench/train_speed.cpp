#include "osdn/bench/train_speed.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <set>

#include "osdn/arch/estimate.h"
#include "osdn/arch/parameter_table.h"
#include "osdn/core/random.h"
#include "osdn/data/loader.h"
#include "osdn/ops/gpu.h"
#include "osdn/train/build.h"
#include "osdn/train/gpu_use.h"
#include "osdn/train/pass_runner.h"
#include "osdn/train/replica.h"
#include "osdn/train/train_step.h"

namespace osdn::bench {
namespace {

using Clock = std::chrono::steady_clock;

data::StepBatch random_batch(const config::Config& config,
                             const TrainSpeedOptions& options,
                             std::uint64_t seed) {
  Xoshiro256 random(seed);
  data::MicroBatch micro;
  micro.rows = 1;
  micro.cu_seqlens = {0};
  for (std::int64_t t = 0; t < options.tokens; ++t) {
    micro.tokens.push_back(static_cast<std::int32_t>(
        random.below(static_cast<std::uint64_t>(config.model.vocab_size))));
  }
  micro.labels.assign(micro.tokens.begin() + 1, micro.tokens.end());
  micro.labels.push_back(data::kNoLabel);
  micro.valid_labels = options.tokens - 1;
  for (std::int64_t t = options.document_tokens; t < options.tokens;
       t += options.document_tokens) {
    micro.cu_seqlens.push_back(t);
  }
  micro.cu_seqlens.push_back(options.tokens);
  data::StepBatch batch;
  batch.valid_labels = micro.valid_labels;
  batch.tokens = options.tokens;
  batch.micro_batches.push_back(std::move(micro));
  return batch;
}

/// Records what runs on the host and the GPU while it lives.
class Trace {
 public:
  explicit Trace(std::filesystem::path file) : file_(std::move(file)) {
    using namespace torch::autograd::profiler;
    const ProfilerConfig config(ProfilerState::KINETO);
    const std::set<ActivityType> activities = {ActivityType::CPU,
                                               ActivityType::CUDA};
    prepareProfiler(config, activities);
    enableProfiler(config, activities);
  }
  ~Trace() {
    torch::autograd::profiler::disableProfiler()->save(file_.string());
  }
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

 private:
  std::filesystem::path file_;
};

TrainSpeed run_steps(const config::Config& config,
                     const TrainSpeedOptions& options, dist::World* world) {
  const train::ComputeChoice compute = train::choose_compute(config.training);
  at::set_num_threads(static_cast<int>(compute.threads));
  ops::reset_gpu_memory_peak();
  model::LanguageModel model = train::make_model(config, compute);
  model.initialise(config.training.seed);
  std::unique_ptr<train::Replica> replica;
  if (world) replica = std::make_unique<train::Replica>(model, config, *world);
  optim::AdamW adamw(replica
                         ? replica->optimized()
                         : train::optimized_tensors(model, config.optimizer),
                     config.optimizer);
  const dist::Place place = world ? world->place() : dist::Place();
  TrainSpeed speed;
  speed.ranks = place.size;
  speed.device = compute.compute.device_name;
  speed.dtype = compute.compute.dtype_name;
  speed.parameters =
      arch::count_parameters(arch::parameter_table(config.model)).total;
  speed.tokens_per_step = options.tokens;
  speed.flops_per_token =
      arch::flops_per_token(config.model,
                            std::min(options.document_tokens, options.tokens))
          .total();
  train::PassRunner passes(model, config, replica == nullptr);
  train::StepOptions step;
  step.lr = 1e-4;
  step.max_grad_norm = config.optimizer.max_grad_norm;
  step.replica = replica.get();
  std::vector<double> seconds;
  for (int i = 0; i < options.warmup + options.steps; ++i) {
    data::StepBatch batch =
        random_batch(config, options,
                     static_cast<std::uint64_t>(i * place.size + place.rank));
    batch.valid_labels *= place.size;
    ops::synchronize_gpu();
    const Clock::time_point start = Clock::now();
    const train::StepResult result =
        train::train_step(passes, adamw, batch, step);
    ops::synchronize_gpu();
    if (i == 0) speed.loss_first = result.loss;
    speed.loss_last = result.loss;
    if (i >= options.warmup) {
      seconds.push_back(
          std::chrono::duration<double>(Clock::now() - start).count());
    }
  }
  if (options.trace) {
    const data::StepBatch batch = random_batch(config, options, 0);
    std::optional<Trace> trace;
    if (place.first()) trace.emplace(*options.trace);
    train::train_step(passes, adamw, batch, step);
    ops::synchronize_gpu();
  }
  speed.step_s = median(seconds);
  speed.host_share = passes.host_share();
  speed.memory_bytes = ops::gpu_memory().peak;
  if (world) {
    for (const auto& rank : world->all_numbers(
             {speed.step_s, static_cast<double>(speed.memory_bytes)})) {
      speed.step_s = std::max(speed.step_s, rank[0]);
      speed.memory_bytes =
          std::max(speed.memory_bytes, static_cast<std::int64_t>(rank[1]));
    }
  }
  speed.tokens_per_s = static_cast<double>(options.tokens) / speed.step_s;
  return speed;
}

}  // namespace

TrainSpeed time_training(const config::Config& config,
                         const TrainSpeedOptions& options, dist::World* world) {
  config::Config asked = config;
  asked.training.micro_batch = 1;
  asked.data.sequence_length = options.tokens;
  TrainSpeed speed;
  train::with_memory_advice(asked,
                            [&] { speed = run_steps(asked, options, world); });
  return speed;
}

}  // namespace osdn::bench
