// osdn-bench: the speed of this machine, its operators and its training, and of
// many GPUs by a model.

#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "command_line.h"
#include "first_speaks.h"
#include "osdn/arch/peak_flops.h"
#include "osdn/bench/generate_speed.h"
#include "osdn/bench/operator_speed.h"
#include "osdn/bench/train_speed.h"
#include "osdn/config/reader.h"
#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "osdn/core/run_main.h"
#include "osdn/core/short_spin.h"
#include "osdn/core/version.h"
#include "osdn/dist/gpu_choice.h"
#include "osdn/dist/world.h"
#include "osdn/ops/gpu.h"
#include "osdn/report/format.h"
#include "osdn/report/table.h"
#include "scaling_command.h"

namespace {

using nlohmann::ordered_json;
using osdn::ExitCode;
using osdn::apps::check_path;
using osdn::apps::integer_from;
using osdn::report::Align;
using osdn::report::format_fixed;
using osdn::report::format_si;

struct Arguments {
  int runs = 21;
  std::string filter;
  std::string json;
  std::vector<std::string> configs;
  std::vector<std::string> overrides;
  osdn::bench::TrainSpeedOptions train;
  std::string trace;
  std::vector<std::int64_t> batches = {1, 64};
  osdn::bench::GenerateSpeedOptions generate;
  bool every_exchange = false;
  double peak_tflops = 0;
};

std::string milliseconds(double seconds) {
  return format_fixed(seconds * 1e3, 3);
}

void write_json(const Arguments& args, const ordered_json& content) {
  if (!args.json.empty()) {
    osdn::write_file_atomic(args.json, content.dump(2) + "\n");
  }
}

ordered_json machine(const osdn::bench::Limits& limits) {
  const osdn::ops::Gpu& gpu = osdn::ops::gpu();
  std::cout << (gpu.usable ? gpu.name : "CPU (" + gpu.why_not + ")")
            << ", commit " << osdn::commit() << "\ncopy "
            << format_si(limits.copy_bytes_per_s)
            << "B/s (read and written), matrix product "
            << format_si(limits.matrix_flops_per_s) << "FLOP/s\n\n";
  return {{"device", gpu.usable ? gpu.name : "CPU"},
          {"commit", osdn::commit()},
          {"copy_bytes_per_s", limits.copy_bytes_per_s},
          {"matrix_flops_per_s", limits.matrix_flops_per_s}};
}

ExitCode bench_kernels(const Arguments& args) {
  const osdn::ops::Gpu& gpu = osdn::ops::gpu();
  if (!gpu.usable) {
    throw osdn::Error(
        "the kernels run on a GPU, and none can be used: " + gpu.why_not,
        ExitCode::kUsage);
  }
  const at::Device device(at::kCUDA, 0);
  const osdn::bench::Limits limits = osdn::bench::measure_limits(device);
  ordered_json out = machine(limits);
  osdn::report::Table table({{"operator", Align::kLeft},
                             {"shape", Align::kLeft},
                             {"limit ms"},
                             {"forward ms"},
                             {"of limit"},
                             {"forward + backward ms"}});
  for (const auto& c : osdn::bench::operator_table()) {
    if (c.use != osdn::bench::Use::kSpeed ||
        (c.op + " " + c.shape).find(args.filter) == std::string::npos) {
      continue;
    }
    const auto speed = osdn::bench::time_operator(c, limits, device, args.runs);
    table.add_row(
        {c.op, c.shape, speed.limit_s > 0 ? milliseconds(speed.limit_s) : "",
         milliseconds(speed.forward_s),
         speed.limit_s > 0 ? format_fixed(speed.limit_s / speed.forward_s, 2)
                           : "",
         speed.both_s > 0 ? milliseconds(speed.both_s) : ""});
    out["operators"].push_back({{"operator", c.op},
                                {"shape", c.shape},
                                {"dtype", "bf16"},
                                {"limit_s", speed.limit_s},
                                {"forward_s", speed.forward_s},
                                {"forward_backward_s", speed.both_s},
                                {"runs", args.runs}});
  }
  std::cout << table.text();
  write_json(args, out);
  return ExitCode::kOk;
}

struct Exchange {
  bool sharded;
  std::string reduce_dtype;
};

/// How the ranks exchange gradients: as configured, or in every way.
std::vector<std::optional<Exchange>> exchanges(const Arguments& args) {
  if (!args.every_exchange) return {std::nullopt};
  return {Exchange{true, "fp32"}, Exchange{true, "bf16"},
          Exchange{false, "fp32"}, Exchange{false, "bf16"}};
}

ExitCode bench_train(Arguments args) {
  osdn::dist::World world;
  osdn::apps::first_speaks(world);
  osdn::dist::take_own_gpu(world.place());
  const osdn::ops::Gpu& gpu = osdn::ops::gpu();
  std::optional<double> peak = osdn::arch::peak_flops(gpu.name);
  if (args.peak_tflops > 0) peak = args.peak_tflops * 1e12;
  if (!args.trace.empty()) args.train.trace = args.trace;
  ordered_json out = machine(osdn::bench::measure_limits(
      gpu.usable ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU)));
  osdn::report::Table table({{"configuration", Align::kLeft},
                             {"parameters"},
                             {"ranks"},
                             {"exchange", Align::kLeft},
                             {"tokens a rank"},
                             {"compute", Align::kLeft},
                             {"step ms"},
                             {"tokens/s a rank"},
                             {"of one rank"},
                             {"memory GiB"},
                             {"model FLOP utilisation"}});
  const auto add = [&](const std::string& name,
                       const osdn::bench::TrainSpeed& speed,
                       const osdn::config::DistConfig& dist, double alone_s) {
    const double flops = speed.flops_per_token * speed.tokens_per_s;
    const bool counted = peak && speed.device == "cuda";
    const bool together = alone_s > 0;
    table.add_row(
        {name, std::to_string(speed.parameters), std::to_string(speed.ranks),
         together ? std::string(dist.shard_optimizer ? "sharded " : "whole ") +
                        dist.reduce_dtype
                  : "none",
         std::to_string(speed.tokens_per_step),
         speed.device + " " + speed.dtype, format_fixed(speed.step_s * 1e3, 1),
         format_si(speed.tokens_per_s),
         together ? format_fixed(100 * alone_s / speed.step_s, 1) + " %" : "",
         speed.memory_bytes > 0
             ? format_fixed(static_cast<double>(speed.memory_bytes) / (1 << 30),
                            1)
             : "n/a",
         counted ? format_fixed(flops / *peak * 100, 1) + " %" : "n/a"});
    ordered_json row = {
        {"config", name},
        {"parameters", speed.parameters},
        {"ranks", speed.ranks},
        {"tokens_per_step", speed.tokens_per_step},
        {"device", speed.device},
        {"dtype", speed.dtype},
        {"step_s", speed.step_s},
        {"tokens_per_s", speed.tokens_per_s},
        {"memory_bytes", speed.memory_bytes},
        {"flops_per_token", speed.flops_per_token},
        {"model_flop_utilisation",
         counted ? ordered_json(flops / *peak) : ordered_json()},
        {"host_share", speed.host_share},
        {"loss_first", speed.loss_first},
        {"loss_last", speed.loss_last},
        {"steps", args.train.steps}};
    if (together) {
      row["hosts"] = speed.ranks / world.place().local_size;
      row["shard_optimizer"] = dist.shard_optimizer;
      row["reduce_dtype"] = dist.reduce_dtype;
      row["bucket_mb"] = dist.bucket_mb;
      row["one_rank_step_s"] = alone_s;
      row["exposed_share"] = 1 - alone_s / speed.step_s;
    }
    out["training"].push_back(row);
  };
  for (const std::string& name : args.configs) {
    osdn::config::Config config = osdn::config::load({name, args.overrides});
    // Each rank for itself, all at the same time; then together.
    const auto alone = osdn::bench::time_training(config, args.train);
    add(name, alone, config.dist, 0);
    if (!world.transport()) continue;
    for (const std::optional<Exchange>& exchange : exchanges(args)) {
      if (exchange) {
        config.dist.shard_optimizer = exchange->sharded;
        config.dist.reduce_dtype = exchange->reduce_dtype;
      }
      add(name, osdn::bench::time_training(config, args.train, &world),
          config.dist, alone.step_s);
    }
  }
  std::cout << table.text();
  if (world.place().first()) write_json(args, out);
  return ExitCode::kOk;
}

ExitCode bench_generate(Arguments args) {
  const osdn::ops::Gpu& gpu = osdn::ops::gpu();
  ordered_json out = machine(osdn::bench::measure_limits(
      gpu.usable ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU)));
  osdn::report::Table table({{"configuration", Align::kLeft},
                             {"compute", Align::kLeft},
                             {"sequences"},
                             {"prompt"},
                             {"prefill tokens/s"},
                             {"decode step ms"},
                             {"decode tokens/s"}});
  for (const std::string& name : args.configs) {
    const osdn::config::Config config =
        osdn::config::load({name, args.overrides});
    for (const std::int64_t batch : args.batches) {
      args.generate.batch = batch;
      const auto speed = osdn::bench::time_generation(config, args.generate);
      table.add_row({name, speed.device + " " + speed.dtype,
                     std::to_string(batch),
                     std::to_string(args.generate.prompt_tokens),
                     format_si(speed.prefill_tokens_per_s),
                     milliseconds(speed.decode_step_s),
                     format_si(speed.decode_tokens_per_s)});
      out["generation"].push_back(
          {{"config", name},
           {"device", speed.device},
           {"dtype", speed.dtype},
           {"sequences", batch},
           {"prompt_tokens", args.generate.prompt_tokens},
           {"new_tokens", args.generate.new_tokens},
           {"prefill_tokens_per_s", speed.prefill_tokens_per_s},
           {"decode_step_s", speed.decode_step_s},
           {"decode_tokens_per_s", speed.decode_tokens_per_s}});
    }
  }
  std::cout << table.text();
  write_json(args, out);
  return ExitCode::kOk;
}

/// What `train` and `generate` are asked to build.
void add_configurations(CLI::App& command, Arguments& args) {
  command
      .add_option("--config", args.configs,
                  "configurations, separated by commas")
      ->delimiter(',')
      ->required();
  command
      .add_option("--set", args.overrides,
                  "KEY=VALUE of every configuration; may be repeated")
      ->allow_extra_args(false);
}

ExitCode bench(int argc, char** argv) {
  CLI::App app(
      "Measures this machine: operators, training, generation; and models "
      "training on many.",
      "osdn-bench");
  app.set_version_flag("--version", osdn::version_line("osdn-bench"));
  app.require_subcommand(1);
  Arguments args;
  CLI::App* kernels =
      app.add_subcommand("kernels", "the operators on the GPU, in bf16");
  kernels->add_option("--runs", args.runs, "timed runs of each")
      ->check(integer_from(1))
      ->capture_default_str();
  kernels->add_option("--filter", args.filter,
                      "only operators and shapes whose name holds this");
  CLI::App* train =
      app.add_subcommand("train", "training steps on random tokens");
  add_configurations(*train, args);
  train
      ->add_option("--tokens", args.train.tokens, "tokens a step, on each rank")
      ->check(integer_from(2))
      ->capture_default_str();
  train
      ->add_option("--document-tokens", args.train.document_tokens,
                   "tokens of each document")
      ->check(integer_from(1))
      ->capture_default_str();
  train->add_option("--steps", args.train.steps, "timed steps")
      ->check(integer_from(1))
      ->capture_default_str();
  train->add_flag("--every-exchange", args.every_exchange,
                  "with several ranks: optimizer state sharded and whole, "
                  "gradients summed in fp32 and bf16");
  train
      ->add_option("--trace", args.trace,
                   "record one step more into this file, for a trace viewer")
      ->check(check_path);
  train
      ->add_option("--peak-tflops", args.peak_tflops,
                   "of the GPU, where osdn does not know it")
      ->check(CLI::PositiveNumber);
  CLI::App* generate = app.add_subcommand(
      "generate", "prefill and greedy decoding of random prompts");
  add_configurations(*generate, args);
  generate->add_option("--sequences", args.batches, "numbers of sequences")
      ->delimiter(',')
      ->check(integer_from(1));
  generate
      ->add_option("--prompt-tokens", args.generate.prompt_tokens,
                   "of each prompt")
      ->check(integer_from(1))
      ->capture_default_str();
  generate
      ->add_option("--new-tokens", args.generate.new_tokens,
                   "decoded of each sequence")
      ->check(integer_from(1))
      ->capture_default_str();
  osdn::apps::ScalingCommand scaling(app);
  for (CLI::App* command : {kernels, train, generate}) {
    command->add_option("--json", args.json, "write the figures to this file")
        ->check(check_path);
  }
  if (const auto code = osdn::apps::parse(app, argc, argv)) {
    return *code;
  }
  if (kernels->parsed()) return bench_kernels(args);
  if (scaling.parsed()) return scaling.run();
  return train->parsed() ? bench_train(args) : bench_generate(args);
}

}  // namespace

int main(int argc, char** argv) {
  osdn::restart_with_short_spin(argv);
  return osdn::run_main(argc, argv, bench);
}
