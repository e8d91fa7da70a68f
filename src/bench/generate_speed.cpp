#include "osdn/bench/generate_speed.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/randint.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "osdn/bench/timing.h"
#include "osdn/model/decoder.h"
#include "osdn/ops/gpu.h"
#include "osdn/ops/threads.h"
#include "osdn/train/build.h"

namespace osdn::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kPrefillTokens = 65536;  // of one pass

ops::Documents equal_pieces(std::int64_t count, std::int64_t tokens) {
  std::vector<std::int64_t> cu_seqlens;
  for (std::int64_t n = 0; n <= count; ++n) cu_seqlens.push_back(n * tokens);
  return ops::Documents(cu_seqlens);
}

double seconds_since(Clock::time_point start) {
  ops::synchronize_gpu();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

at::Tensor random_tokens(const model::LanguageModel& model,
                         std::int64_t count) {
  return at::randint(
      model.config().vocab_size, {count},
      at::TensorOptions().dtype(at::kLong).device(model.device()));
}

double prefill(const model::LanguageModel& model,
               const GenerateSpeedOptions& options, model::ModelState& state) {
  const std::int64_t piece = std::clamp<std::int64_t>(
      kPrefillTokens / options.batch, 1, options.prompt_tokens);
  ops::synchronize_gpu();
  const Clock::time_point start = Clock::now();
  for (std::int64_t done = 0; done < options.prompt_tokens; done += piece) {
    const std::int64_t count = std::min(piece, options.prompt_tokens - done);
    model.hidden(random_tokens(model, options.batch * count),
                 equal_pieces(options.batch, count), &state);
  }
  return seconds_since(start);
}

}  // namespace

GenerateSpeed time_generation(const config::Config& config,
                              const GenerateSpeedOptions& options) {
  const at::NoGradGuard no_grad;
  const train::ComputeChoice compute = train::choose_compute(config.training);
  ops::set_threads(compute.threads);
  model::LanguageModel model = train::make_model(config, compute);
  model.initialise(config.training.seed);
  GenerateSpeed speed{compute.compute.device_name, compute.compute.dtype_name};
  {
    model::ModelState warmup;
    prefill(model, options, warmup);
  }
  model::ModelState state;
  const double seconds = prefill(model, options, state);
  speed.prefill_tokens_per_s =
      static_cast<double>(options.batch * options.prompt_tokens) / seconds;

  model::Decoder decoder(model, std::move(state));
  at::Tensor next = random_tokens(model, options.batch);
  std::vector<double> steps;
  for (std::int64_t i = 0; i < options.new_tokens; ++i) {
    const Clock::time_point start = Clock::now();
    next = at::argmax(decoder.logits(next), 1);
    steps.push_back(seconds_since(start));
  }
  speed.decode_step_s = median(steps);
  speed.decode_tokens_per_s =
      static_cast<double>(options.batch) / speed.decode_step_s;
  return speed;
}

}  // namespace osdn::bench
