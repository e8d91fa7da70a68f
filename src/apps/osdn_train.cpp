// osdn-train: trains a language model from token shards.

#include <CLI/CLI.hpp>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "command_line.h"
#include "join_ranks.h"
#include "osdn/arch/dry_run.h"
#include "osdn/config/reader.h"
#include "osdn/config/validate.h"
#include "osdn/core/log.h"
#include "osdn/core/run_main.h"
#include "osdn/core/short_spin.h"
#include "osdn/core/version.h"
#include "osdn/dist/world.h"
#include "osdn/ops/gpu.h"
#include "osdn/train/run.h"
#include "osdn/train/stop_request.h"

namespace {

using osdn::ExitCode;

struct Arguments {
  osdn::config::LoadRequest load;
  osdn::train::RunRequest request;
  std::string resume = "never";
  std::optional<std::string> stop_after;
  std::optional<std::string> signal_before;
  bool dry_run = false;
  bool print_config = false;

  bool trains() const { return !dry_run && !print_config; }
  std::string task() const {
    return dry_run ? "--dry-run" : print_config ? "--print-config" : "training";
  }
};

void add_configuration(CLI::App& app, Arguments& args) {
  app.add_option("--config", args.load.config,
                 "configuration: a path, or a name in $OSDN_CONFIG_PATH or "
                 "among the configurations that come with osdn")
      ->required()
      ->check(osdn::apps::check_path);
  app.add_option("--set", args.load.overrides,
                 "KEY=VALUE, for example training.steps=100; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--run-dir", args.load.run_dir,
                 "folder of everything that the run writes, instead of the "
                 "configuration's run_dir")
      ->check(osdn::apps::check_path);
  app.add_flag("--dry-run", args.dry_run,
               "print configuration, parameters, memory and schedule; touch "
               "nothing");
  app.add_flag("--print-config", args.print_config,
               "print the resolved configuration; touch nothing");
}

void add_run(CLI::App& app, Arguments& args) {
  app.add_option("--resume", args.resume,
                 "auto: go on from the newest sound checkpoint; never; or "
                 "the folder of a checkpoint or of another run")
      ->check(osdn::apps::check_path)
      ->capture_default_str();
  app.add_flag("--overwrite", args.request.overwrite,
               "move an older run in the folder aside and start anew");
  app.add_option("--stop-after", args.stop_after,
                 "stop as on SIGTERM after this long, for example 15m");
  app.add_option("--signal-before", args.signal_before,
                 "stop as on SIGTERM so long before the end of the time limit "
                 "of a Slurm job, for example 5m");
  app.add_option("--peak-tflops", args.request.peak_tflops,
                 "of the GPU in dense bf16, for the utilisation of one that "
                 "osdn does not know")
      ->check(CLI::PositiveNumber);
}

/// What touches nothing: rank 0 says it for all.
void print(const Arguments& args, osdn::dist::World& world) {
  const osdn::config::Config& config = args.request.config;
  if (args.print_config) {
    std::cout << osdn::config::to_json(config);
    return;
  }
  const int ranks = world.transport() ? world.place().size : 0;
  world.agree([&] {
    if (ranks > 0) osdn::config::validate_ranks(config, ranks);
  });
  osdn::arch::GpuFound gpu;
  // Looking starts CUDA, which one rank's report is worth.
  if (world.place().first() && config.training.device != "cpu" &&
      osdn::ops::gpu().usable) {
    gpu = {osdn::ops::gpu().name, osdn::ops::gpu().memory_bytes};
  }
  std::cout << osdn::arch::dry_run_report(config, ranks, gpu);
}

ExitCode train(int argc, char** argv) {
  CLI::App app("Trains a language model from token shards.", "osdn-train");
  app.set_version_flag("--version", osdn::version_line("osdn-train"));
  Arguments args;
  add_configuration(app, args);
  add_run(app, args);
  const auto end = osdn::apps::try_parse(app, argc, argv);
  if (!end && args.trains()) {
    osdn::train::hold_stop_signals();
    osdn::restart_with_short_spin(argv);
  }
  std::optional<osdn::dist::World> ranks;
  if (const auto code = osdn::apps::join_ranks(end, ranks)) return *code;
  osdn::dist::World& world = *ranks;
  osdn::train::RunRequest& request = args.request;
  request.world = &world;
  osdn::apps::check_same_task(world, args.task());
  world.agree([&] { request.config = osdn::config::load(args.load); });
  if (!args.trains()) {
    print(args, world);
    return ExitCode::kOk;
  }
  if (world.place().first()) {
    osdn::log::set_level(
        osdn::log::level_from_name(request.config.logging.level));
  }
  world.agree([&] {
    osdn::train::set_resume(request, args.resume);
    if (args.stop_after) {
      request.stop_after_s = osdn::train::parse_duration(*args.stop_after);
    }
    if (args.signal_before) {
      request.signal_in_s = osdn::train::seconds_until_limit(
          osdn::train::parse_duration(*args.signal_before));
    }
  });
  request.command_line.assign(argv, argv + argc);
  osdn::train::run(request);
  return ExitCode::kOk;
}

}  // namespace

int main(int argc, char** argv) {
  return osdn::run_main(argc, argv, train);
}
