// osdn-bench: the speed of this machine, its operators and its training, and of
// many GPUs by a model.

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "command_line.h"
#include "join_ranks.h"
#include "osdn/arch/peak_flops.h"
#include "osdn/bench/collective_speed.h"
#include "osdn/bench/generate_speed.h"
#include "osdn/bench/operator_speed.h"
#include "osdn/bench/train_report.h"
#include "osdn/bench/train_speed.h"
#include "osdn/config/reader.h"
#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "osdn/core/log.h"
#include "osdn/core/run_main.h"
#include "osdn/core/short_spin.h"
#include "osdn/core/version.h"
#include "osdn/dist/collectives.h"
#include "osdn/dist/cores.h"
#include "osdn/dist/end_process.h"
#include "osdn/dist/gpu_choice.h"
#include "osdn/dist/world.h"
#include "osdn/ops/gpu.h"
#include "osdn/report/format.h"
#include "osdn/report/table.h"
#include "osdn/train/compute_choice.h"
#include "osdn/train/rank_devices.h"
#include "output_files.h"
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
  std::vector<std::int64_t> tokens;
  osdn::bench::CollectiveSpeedOptions collectives;
  std::vector<std::string> gpu_exchanges;
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

/// How the ranks exchange gradients: as configured, or in every way.
std::vector<osdn::config::DistConfig> exchanges(
    const Arguments& args, const osdn::config::DistConfig& configured) {
  std::vector<osdn::config::DistConfig> kinds;
  if (args.every_exchange) {
    for (const auto& [sharded, reduce_dtype] :
         {std::pair{true, "fp32"}, std::pair{true, "bf16"},
          std::pair{false, "fp32"}, std::pair{false, "bf16"}}) {
      osdn::config::DistConfig& kind = kinds.emplace_back(configured);
      kind.shard_optimizer = sharded;
      kind.reduce_dtype = reduce_dtype;
    }
  } else {
    kinds.push_back(configured);
  }
  if (args.gpu_exchanges.empty()) return kinds;
  std::vector<osdn::config::DistConfig> all;
  for (osdn::config::DistConfig& kind : kinds) {
    for (const std::string& gpu_exchange : args.gpu_exchanges) {
      kind.gpu_exchange = gpu_exchange;
      all.push_back(kind);
    }
  }
  return all;
}

/// One rank of a measurement.
struct Rank {
  osdn::dist::World& world;
  at::Device device;
  std::int64_t cores;  ///< that fall to it
  ordered_json out;    ///< what --json is to hold
};

/// Measures the machine, then what it is given, with the ranks of a launcher if
/// there is one.
ExitCode bench_as_rank(const Arguments& args, osdn::dist::World& world,
                       const std::function<void(Rank&)>& work) {
  world.set_timeout(std::chrono::seconds(60));
  osdn::dist::WatchOptions watch;
  watch.on_failure = osdn::dist::end_process("osdn-bench");
  watch.look = osdn::dist::nccl_trouble;
  world.start_watch(watch);
  osdn::dist::take_own_gpu(world.place());
  world.agree([&] {
    if (args.gpu_exchanges.empty() || osdn::ops::gpu().usable) return;
    throw osdn::Error(osdn::concat("--gpu-exchange needs GPUs, and none can be "
                                   "used: ",
                                   osdn::ops::gpu().why_not, "; leave it out"),
                      ExitCode::kUsage);
  });
  const at::Device device =
      osdn::ops::gpu().usable ? at::Device(at::kCUDA, 0) : at::kCPU;
  Rank rank{world, device, osdn::dist::take_cores(world), {}};
  rank.out = machine(osdn::bench::measure_limits(device));
  work(rank);
  if (world.place().first()) write_json(args, rank.out);
  return ExitCode::kOk;
}

/// One configuration with so many tokens: apart, then with each exchange.
void train_once(const Arguments& args, const osdn::config::LoadRequest& asked,
                osdn::config::Config config, osdn::dist::World& world,
                osdn::bench::TrainReport& report) {
  for (const auto& speed : osdn::bench::time_apart(config, args.train, world)) {
    report.add(asked, config, speed);
  }
  if (!world.transport()) return;
  for (const osdn::config::DistConfig& dist : exchanges(args, config.dist)) {
    config.dist = dist;
    report.add(asked, config,
               osdn::bench::time_linked(config, args.train, world));
  }
}

void bench_configurations(Arguments args, Rank& rank) {
  std::optional<double> peak = osdn::arch::peak_flops(osdn::ops::gpu().name);
  if (args.peak_tflops > 0) peak = args.peak_tflops * 1e12;
  if (rank.device.is_cpu()) args.train.warmup = 1;  // libraries set up, no more
  if (args.tokens.empty()) args.tokens = {rank.device.is_cpu() ? 1024 : 65536};
  osdn::bench::TrainReport report(peak, rank.world.place());
  for (const std::string& name : args.configs) {
    const osdn::config::LoadRequest asked{name, args.overrides};
    osdn::config::Config config;
    bool on_gpu = false;
    rank.world.agree([&] {
      config = osdn::config::load(asked);
      on_gpu =
          osdn::train::choose_compute(config.training).compute.device.is_cuda();
    });
    osdn::train::check_devices(rank.world, on_gpu, config.dist.share_gpus);
    if (config.training.threads == 0) config.training.threads = rank.cores;
    for (const std::int64_t tokens : args.tokens) {
      args.train.tokens = tokens;
      osdn::log::info(name, ": each measurement takes ",
                      args.train.warmup + args.train.steps, " steps of ",
                      tokens, " tokens");
      train_once(args, asked, config, rank.world, report);
    }
  }
  std::cout << report.text();
  rank.out["training"] = report.json();
}

ExitCode bench_train(Arguments args, osdn::dist::World& world) {
  if (!args.trace.empty()) args.train.trace = args.trace;
  return bench_as_rank(args, world,
                       [&](Rank& rank) { bench_configurations(args, rank); });
}

ExitCode bench_collectives(const Arguments& args, osdn::dist::World& world) {
  return bench_as_rank(args, world, [&](Rank& rank) {
    osdn::bench::CollectiveSpeedOptions options = args.collectives;
    if (!args.gpu_exchanges.empty()) options.gpu_exchanges = args.gpu_exchanges;
    osdn::train::check_devices(rank.world, rank.device.is_cuda(),
                               /*share_gpus=*/false);
    const auto speeds =
        osdn::bench::time_collectives(rank.world, rank.device, options);
    const osdn::dist::Place& place = rank.world.place();
    std::cout << osdn::bench::collectives_table(speeds, place);
    rank.out["runs"] = args.collectives.runs;
    rank.out["collectives"] = osdn::bench::collectives_json(speeds, place);
  });
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
           {"set", args.overrides},
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

CLI::App* add_kernels(CLI::App& app, Arguments& args) {
  CLI::App* kernels =
      app.add_subcommand("kernels", "the operators on the GPU, in bf16");
  kernels->add_option("--runs", args.runs, "timed runs of each")
      ->check(integer_from(1))
      ->capture_default_str();
  kernels->add_option("--filter", args.filter,
                      "only operators and shapes whose name holds this");
  return kernels;
}

CLI::App* add_train(CLI::App& app, Arguments& args) {
  CLI::App* train = app.add_subcommand(
      "train",
      "training steps on random tokens; of several ranks (mpirun) each apart "
      "and all together");
  add_configurations(*train, args);
  train
      ->add_option("--tokens", args.tokens,
                   "tokens a step, on each rank; several, separated by commas "
                   "(default: 65536 on a GPU, 1024 on a CPU)")
      ->delimiter(',')
      ->check(integer_from(2));
  train
      ->add_option("--micro-batches", args.train.micro_batches,
                   "passes that share the tokens of a rank's step")
      ->check(integer_from(1, 1 << 20))
      ->capture_default_str();
  train
      ->add_option("--document-tokens", args.train.document_tokens,
                   "tokens of each document")
      ->check(integer_from(1))
      ->capture_default_str();
  train->add_option("--steps", args.train.steps, "timed steps")
      ->check(integer_from(1, 1 << 20))
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
  return train;
}

CLI::App* add_collectives(CLI::App& app, Arguments& args) {
  CLI::App* collectives = app.add_subcommand(
      "collectives",
      "buckets of several sizes exchanged by the ranks that mpirun started, as "
      "training does");
  collectives
      ->add_option("--mb", args.collectives.megabytes,
                   "sizes of the buckets, separated by commas")
      ->delimiter(',')
      ->check(CLI::Range(1e-6, 1e6))
      ->capture_default_str();
  collectives->add_option("--runs", args.collectives.runs, "timed runs of each")
      ->check(integer_from(1, 1 << 20))
      ->capture_default_str();
  return collectives;
}

void add_gpu_exchange(CLI::App& command, Arguments& args) {
  command
      .add_option("--gpu-exchange", args.gpu_exchanges,
                  "dist.gpu_exchange: auto, peer, nccl; several, separated by "
                  "commas, are measured in turn")
      ->delimiter(',')
      ->check(CLI::IsMember({"auto", "peer", "nccl"}));
}

CLI::App* add_generate(CLI::App& app, Arguments& args) {
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
  return generate;
}

/// Throws Error (kUsage) for what would be found out after the work alone.
void check_arguments(const Arguments& args, osdn::dist::World& world) {
  using OptionalPath = std::optional<std::filesystem::path>;
  const OptionalPath json = args.json.empty() ? OptionalPath() : args.json;
  osdn::apps::check_output("--json", json, {});
  for (const auto& [option, given] :
       {std::pair{"--every-exchange", args.every_exchange},
        std::pair{"--gpu-exchange", !args.gpu_exchanges.empty()}}) {
    if (!given || !world.place().alone()) continue;
    throw osdn::Error(
        osdn::concat(option,
                     " has no effect without ranks that exchange something; "
                     "start them with mpirun -n, or leave it out"),
        ExitCode::kUsage);
  }
  if (args.trace.empty()) return;
  osdn::apps::check_output(
      "--trace", args.trace,
      json ? std::vector{*json} : std::vector<std::filesystem::path>());
  if (args.configs.size() > 1 || args.tokens.size() > 1 ||
      args.every_exchange || args.gpu_exchanges.size() > 1) {
    throw osdn::Error(
        "--trace takes one configuration, one number of tokens and one "
        "exchange, each of which would write over the last; give each a call",
        ExitCode::kUsage);
  }
}

ExitCode bench(int argc, char** argv) {
  CLI::App app(
      "Measures this machine: operators, training, generation, what its ranks "
      "exchange; and models training on many.",
      "osdn-bench");
  app.set_version_flag("--version", osdn::version_line("osdn-bench"));
  app.require_subcommand(1);
  Arguments args;
  CLI::App* kernels = add_kernels(app, args);
  CLI::App* train = add_train(app, args);
  CLI::App* collectives = add_collectives(app, args);
  CLI::App* generate = add_generate(app, args);
  for (CLI::App* command : {train, collectives}) {
    add_gpu_exchange(*command, args);
  }
  osdn::apps::ScalingCommand scaling(app);
  for (CLI::App* command : {kernels, train, collectives, generate}) {
    command->add_option("--json", args.json, "write the figures to this file")
        ->check(check_path);
  }
  const auto end = osdn::apps::try_parse(app, argc, argv);
  std::optional<osdn::dist::World> world;
  if (const auto code = osdn::apps::join_ranks(end, world)) return *code;
  osdn::apps::check_same_task(*world,
                              app.get_subcommands().front()->get_name());
  osdn::apps::check_same_options(*world, argc, argv);
  world->agree([&] { check_arguments(args, *world); });
  ExitCode code = ExitCode::kOk;
  world->run([&] {
    code = kernels->parsed()       ? bench_kernels(args)
           : scaling.parsed()      ? scaling.run()
           : collectives->parsed() ? bench_collectives(args, *world)
           : train->parsed()       ? bench_train(args, *world)
                                   : bench_generate(args);
  });
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  osdn::restart_with_short_spin(argv);
  return osdn::run_main(argc, argv, bench);
}
