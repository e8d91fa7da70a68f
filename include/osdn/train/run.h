#pragma once
// A whole training run: checks, run folder, resume, loop.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "osdn/config/config.h"
#include "osdn/dist/world.h"
#include "osdn/train/gradient_observer.h"

namespace osdn::train {

enum class ResumeMode {
  kNever,  ///< an older run in the folder is an error
  kAuto,   ///< goes on from the newest sound checkpoint, or starts
  kFrom,   ///< goes on from one checkpoint
};

struct RunRequest {
  config::Config config;  ///< its run_dir is the run's folder
  ResumeMode resume = ResumeMode::kNever;
  /// kFrom: a checkpoint's folder, or a run's folder for its newest sound one;
  /// of this run (which goes back to it; later checkpoints are set aside) or of
  /// another (this folder has to be free).
  std::filesystem::path resume_from{};
  bool overwrite = false;  ///< moves an older run in the folder aside
  std::optional<double> stop_after_s{};
  std::optional<double> signal_in_s{};      ///< seconds_until_limit
  std::vector<std::string> command_line{};  ///< for the run's record
  GradientObserver observer{};
  double peak_tflops = 0;  ///< of the GPU, where osdn does not know it
  /// The ranks of the run; null: those that a launcher started, or one.
  dist::World* world = nullptr;
};

/// "auto", "never" or a path, as --resume takes it.
void set_resume(RunRequest& request, const std::string& text);

/// Trains. Everything that can be wrong is found before the run folder is
/// changed: device, data files, tokenizer, older runs, checkpoint. Errors as
/// Trainer::run, and kUsage or kBadInput for what is wrong before.
void run(const RunRequest& request);

}  // namespace osdn::train
