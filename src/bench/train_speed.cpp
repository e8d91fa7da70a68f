#include "osdn/bench/train_speed.h"

#include <torch/csrc/autograd/profiler_kineto.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <set>
#include <utility>

#include "osdn/arch/estimate.h"
#include "osdn/arch/parameter_table.h"
#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/random.h"
#include "osdn/data/loader.h"
#include "osdn/ops/gpu.h"
#include "osdn/ops/threads.h"
#include "osdn/train/build.h"
#include "osdn/train/device_collectives.h"
#include "osdn/train/gpu_use.h"
#include "osdn/train/pass_runner.h"
#include "osdn/train/replica.h"
#include "osdn/train/train_step.h"
#include "part_clock.h"

namespace osdn::bench {
namespace {

using Clock = std::chrono::steady_clock;

/// Made before the first step, which then need not wait for the next; a
/// measurement of more steps goes through them again.
constexpr int kBatches = 32;

data::MicroBatch random_pass(std::int64_t vocabulary, std::int64_t tokens,
                             std::int64_t document_tokens, Xoshiro256& random) {
  data::MicroBatch micro;
  micro.rows = 1;
  micro.cu_seqlens = {0};
  for (std::int64_t t = 0; t < tokens; ++t) {
    micro.tokens.push_back(static_cast<std::int32_t>(
        random.below(static_cast<std::uint64_t>(vocabulary))));
  }
  micro.labels.assign(micro.tokens.begin() + 1, micro.tokens.end());
  micro.labels.push_back(data::kNoLabel);
  micro.valid_labels = tokens - 1;
  for (std::int64_t t = document_tokens; t < tokens; t += document_tokens) {
    micro.cu_seqlens.push_back(t);
  }
  micro.cu_seqlens.push_back(tokens);
  return micro;
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

/// The trainer's step, again and again, on one rank.
class Stepper {
 public:
  /// `linked`: the ranks to train with, or null.
  Stepper(const config::Config& config, const TrainSpeedOptions& options,
          const dist::Place& place, dist::World* linked)
      : config_(config),
        options_(options),
        place_(place),
        company_(linked ? place.size : 1),
        compute_(choose(config.training)),
        model_(train::make_model(config, compute_)),
        clock_(model_.device()) {
    model_.initialise(config.training.seed);
    if (linked) {
      auto collectives =
          train::device_collectives(*linked, model_.device(), config.dist);
      exchange_ = collectives->name();
      replica_ = std::make_unique<train::Replica>(
          model_, config, *linked,
          timed_collectives(std::move(collectives), clock_));
    }
    adamw_.emplace(replica_
                       ? replica_->optimized()
                       : train::optimized_tensors(model_, config.optimizer),
                   config.optimizer);
    passes_.emplace(model_, config, !linked);
    step_.lr = 1e-4;
    step_.max_grad_norm = config.optimizer.max_grad_norm;
    step_.replica = replica_.get();
    step_.after_backward = [this] { clock_.begin(Part::kUpdate); };
  }

  /// Steps follow one another as in training, where each hands its weights to
  /// the other ranks while the next one computes.
  RankStep measure() {
    const int all = options_.warmup + options_.steps;
    std::vector<data::StepBatch> batches;
    batches.reserve(kBatches);
    for (int i = 0; i < std::min(all, kBatches); ++i) {
      batches.push_back(random_batch());
    }
    ops::reset_gpu_memory_peak();
    ops::synchronize_gpu();
    std::vector<double> steps;
    Clock::time_point before = Clock::now();
    for (int i = 0; i < all; ++i) {
      const double loss = step(batches[static_cast<std::size_t>(i % kBatches)]);
      const Clock::time_point now = Clock::now();
      if (steps.empty()) loss_first_ = loss;
      loss_last_ = loss;
      steps.push_back(std::chrono::duration<double>(now - before).count());
      before = now;
      clock_.next_step();
    }
    ops::synchronize_gpu();
    std::array<std::vector<double>, kParts> parts;
    const auto of_steps = clock_.take();
    for (std::size_t i = timed_from(); i < steps.size(); ++i) {
      for (std::size_t p = 0; p < kParts; ++p) {
        parts[p].push_back(of_steps[i][p]);
      }
    }
    steps.erase(steps.begin(),
                steps.begin() + static_cast<std::ptrdiff_t>(timed_from()));
    return {median(steps),    median(parts[0]),       median(parts[1]),
            median(parts[2]), ops::gpu_memory().peak, passes_->host_share()};
  }

  /// One step more, recorded by rank 0 if that is asked for.
  void trace() {
    if (!options_.trace) return;
    const data::StepBatch batch = random_batch();
    std::optional<Trace> trace;
    if (place_.first()) trace.emplace(*options_.trace);
    step(batch);
    ops::synchronize_gpu();
  }

  TrainSpeed speed(Company company, std::vector<RankStep> ranks) const {
    TrainSpeed speed;
    speed.company = company;
    speed.exchange = exchange_;
    speed.ranks = std::move(ranks);
    speed.device = compute_.compute.device_name;
    speed.dtype = compute_.compute.dtype_name;
    speed.parameters =
        arch::count_parameters(arch::parameter_table(config_.model)).total;
    speed.tokens_per_step = options_.tokens;
    speed.micro_batches = options_.micro_batches;
    speed.document_tokens =
        std::min(options_.document_tokens, config_.data.sequence_length);
    speed.flops_per_token =
        arch::flops_per_token(config_.model, speed.document_tokens).total();
    speed.steps = options_.steps;
    speed.loss_first = loss_first_;
    speed.loss_last = loss_last_;
    return speed;
  }

 private:
  std::size_t timed_from() const {
    return static_cast<std::size_t>(options_.warmup);
  }

  static train::ComputeChoice choose(const config::TrainingConfig& training) {
    train::ComputeChoice compute = train::choose_compute(training);
    ops::set_threads(compute.threads);
    return compute;
  }

  data::StepBatch random_batch() {
    Xoshiro256 random(
        static_cast<std::uint64_t>(batches_++ * place_.size + place_.rank));
    data::StepBatch batch;
    for (std::int64_t i = 0; i < options_.micro_batches; ++i) {
      batch.micro_batches.push_back(
          random_pass(config_.model.vocab_size, config_.data.sequence_length,
                      options_.document_tokens, random));
      batch.valid_labels += batch.micro_batches.back().valid_labels * company_;
    }
    batch.tokens = options_.tokens;
    return batch;
  }

  double step(const data::StepBatch& batch) {
    const train::StepResult result =
        train::train_step(*passes_, *adamw_, batch, step_);
    clock_.end(Part::kUpdate);
    return result.loss;
  }

  const config::Config& config_;
  const TrainSpeedOptions& options_;
  const dist::Place place_;
  const int company_;  // ranks that share a step
  const train::ComputeChoice compute_;
  model::LanguageModel model_;
  PartClock clock_;
  std::string exchange_;
  std::unique_ptr<train::Replica> replica_;
  std::optional<optim::AdamW> adamw_;
  std::optional<train::PassRunner> passes_;
  train::StepOptions step_;
  std::int64_t batches_ = 0;
  double loss_first_ = 0;
  double loss_last_ = 0;
};

/// Collective: every rank's.
std::vector<RankStep> of_all(dist::World& world, const RankStep& mine) {
  std::vector<RankStep> ranks;
  for (const auto& rank : world.all_numbers(
           {mine.step_s, mine.gradients_wait_s, mine.weights_wait_s,
            mine.update_s, static_cast<double>(mine.memory_bytes),
            mine.host_share})) {
    ranks.push_back({rank[0], rank[1], rank[2], rank[3],
                     static_cast<std::int64_t>(rank[4]), rank[5]});
  }
  return ranks;
}

/// The configuration with passes of these tokens.
config::Config with_passes(config::Config config,
                           const TrainSpeedOptions& options) {
  if (options.tokens % options.micro_batches != 0 ||
      options.tokens < 2 * options.micro_batches) {
    throw Error(concat(options.tokens, " tokens a step do not make ",
                       options.micro_batches,
                       " micro-batches of equally many, at least 2 each"),
                ExitCode::kUsage);
  }
  config.training.micro_batch = 1;
  config.data.sequence_length = options.tokens / options.micro_batches;
  train::choose_compute(config.training);  // refuses what is not here
  return config;
}

/// Collective: that, refused by all ranks together.
config::Config agreed(const config::Config& config,
                      const TrainSpeedOptions& options, dist::World& world) {
  config::Config own;
  world.agree([&] { own = with_passes(config, options); });
  return own;
}

bool by_step(const RankStep& a, const RankStep& b) {
  return a.step_s < b.step_s;
}

}  // namespace

std::size_t TrainSpeed::fastest() const {
  return static_cast<std::size_t>(
      std::min_element(ranks.begin(), ranks.end(), by_step) - ranks.begin());
}

std::size_t TrainSpeed::slowest() const {
  return static_cast<std::size_t>(
      std::max_element(ranks.begin(), ranks.end(), by_step) - ranks.begin());
}

std::int64_t TrainSpeed::memory_bytes() const {
  std::int64_t most = 0;
  for (const RankStep& rank : ranks) most = std::max(most, rank.memory_bytes);
  return most;
}

std::vector<TrainSpeed> time_apart(const config::Config& config,
                                   const TrainSpeedOptions& options,
                                   dist::World& world) {
  const config::Config own = agreed(config, options, world);
  std::vector<TrainSpeed> speeds;
  train::with_memory_advice(own, [&] {
    Stepper stepper(own, options, world.place(), nullptr);
    world.all("");  // when all have a model
    RankStep mine;
    if (world.place().first()) {
      mine = stepper.measure();
      stepper.trace();
    }
    speeds.push_back(
        stepper.speed(Company::kAlone, {of_all(world, mine).front()}));
    if (world.place().alone()) return;
    mine = stepper.measure();
    speeds.push_back(stepper.speed(Company::kBeside, of_all(world, mine)));
  });
  return speeds;
}

TrainSpeed time_linked(const config::Config& config,
                       const TrainSpeedOptions& options, dist::World& world) {
  const config::Config own = agreed(config, options, world);
  TrainSpeed speed;
  train::with_memory_advice(own, [&] {
    Stepper stepper(own, options, world.place(), &world);
    const RankStep mine = stepper.measure();
    stepper.trace();
    speed = stepper.speed(Company::kLinked, of_all(world, mine));
  });
  return speed;
}

}  // namespace osdn::bench
