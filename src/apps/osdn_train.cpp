// osdn-train: trains a language model from token shards.

#include <CLI/CLI.hpp>
#include <csignal>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "command_line.h"
#include "first_speaks.h"
#include "osdn/arch/dry_run.h"
#include "osdn/config/reader.h"
#include "osdn/core/log.h"
#include "osdn/core/run_main.h"
#include "osdn/core/short_spin.h"
#include "osdn/core/version.h"
#include "osdn/dist/world.h"
#include "osdn/train/run.h"
#include "osdn/train/stop_request.h"

namespace {

using osdn::ExitCode;

ExitCode train(int argc, char** argv) {
  CLI::App app("Trains a language model from token shards.", "osdn-train");
  app.set_version_flag("--version", osdn::version_line("osdn-train"));
  osdn::config::LoadRequest load;
  std::string run_dir;
  std::string resume = "never";
  std::optional<std::string> stop_after;
  std::optional<std::string> signal_before;
  bool overwrite = false;
  bool dry_run = false;
  bool print_config = false;
  app.add_option("--config", load.config,
                 "configuration: a path, or a name in $OSDN_CONFIG_PATH or "
                 "among the configurations that come with osdn")
      ->required()
      ->check(osdn::apps::check_path);
  app.add_option("--set", load.overrides,
                 "KEY=VALUE, for example training.steps=100; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--run-dir", run_dir,
                 "folder of everything that the run writes; else run_dir of "
                 "the configuration")
      ->check(osdn::apps::check_path);
  CLI::Option* resume_option =
      app.add_option("--resume", resume,
                     "auto: go on from the newest sound checkpoint; never; or "
                     "the folder of a checkpoint or of another run")
          ->check(osdn::apps::check_path)
          ->capture_default_str();
  app.add_flag("--overwrite", overwrite,
               "move an older run in the folder aside and start anew");
  app.add_option("--stop-after", stop_after,
                 "stop as on SIGTERM after this long, for example 15m");
  app.add_option("--signal-before", signal_before,
                 "stop as on SIGTERM so long before the end of the time limit "
                 "of a Slurm job, for example 5m");
  osdn::train::RunRequest request;
  app.add_option("--peak-tflops", request.peak_tflops,
                 "of the GPU in dense bf16, for the utilisation of one that "
                 "osdn does not know")
      ->check(CLI::PositiveNumber);
  app.add_flag("--dry-run", dry_run,
               "print configuration, parameters, memory and schedule; touch "
               "nothing");
  app.add_flag("--print-config", print_config,
               "print the resolved configuration; touch nothing");
  if (const auto code = osdn::apps::parse(app, argc, argv)) {
    return *code;
  }
  const bool trains = !dry_run && !print_config;
  if (trains) {
    osdn::train::hold_stop_signals();
    // Who reads the progress may go away; training goes on.
    std::signal(SIGPIPE, SIG_IGN);
    osdn::restart_with_short_spin(argv);
  }

  osdn::dist::World world;
  request.world = &world;
  osdn::apps::first_speaks(world);
  world.agree([&] { request.config = osdn::config::load(load); });
  if (!run_dir.empty()) {
    request.config.run_dir = run_dir;
  }
  if (!trains && !world.place().first()) {
    return ExitCode::kOk;
  }
  if (print_config) {
    std::cout << osdn::config::to_json(request.config);
    return ExitCode::kOk;
  }
  if (dry_run) {
    std::cout << osdn::arch::dry_run_report(request.config);
    return ExitCode::kOk;
  }
  if (world.place().first()) {
    osdn::log::set_level(
        osdn::log::level_from_name(request.config.logging.level));
  }
  if (resume_option->count() > 0) {
    osdn::train::set_resume(request, resume);
  }
  request.overwrite = overwrite;
  if (stop_after) {
    request.stop_after_s = osdn::train::parse_duration(*stop_after);
  }
  if (signal_before) {
    request.signal_in_s = osdn::train::seconds_until_limit(
        osdn::train::parse_duration(*signal_before));
  }
  request.command_line.assign(argv, argv + argc);
  osdn::train::run(request);
  return ExitCode::kOk;
}

}  // namespace

int main(int argc, char** argv) {
  return osdn::run_main(argc, argv, train);
}
