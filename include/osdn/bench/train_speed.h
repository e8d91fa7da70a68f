#pragma once
// How fast a configuration trains on this machine, on random tokens.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "osdn/bench/timing.h"
#include "osdn/config/config.h"
#include "osdn/dist/world.h"

namespace osdn::bench {

struct TrainSpeed {
  std::string device;
  std::string dtype;
  std::int64_t parameters = 0;
  std::int64_t tokens_per_step = 0;
  double step_s = 0;  ///< median
  double tokens_per_s = 0;
  std::int64_t memory_bytes = 0;  ///< held at most; 0 where it is not counted
  double flops_per_token = 0;     ///< arch::flops_per_token
  /// Of the time of forward and backward, what the host needs to hand them to
  /// the GPU (train::PassRunner::host_share); 0 where all were recorded.
  double host_share = 0;
  double loss_first = 0;
  double loss_last = 0;
  int ranks = 1;
};

struct TrainSpeedOptions {
  std::int64_t tokens = 65536;          ///< a step, on each rank
  std::int64_t document_tokens = 4096;  ///< each
  int warmup = 8;  ///< training.cuda_graph "auto" decides within these
  int steps = 20;
  /// Where the trace of one step more goes, for chrome://tracing.
  std::optional<std::filesystem::path> trace{};
};

/// Trains the configured model, whatever data it names, with the trainer's own
/// step; together with the other ranks of `world`, unless that is null.
/// Collective then; figures of the slowest rank, and of one rank where they are
/// sums. Throws Error as osdn-train would.
TrainSpeed time_training(const config::Config& config,
                         const TrainSpeedOptions& options,
                         dist::World* world = nullptr);

}  // namespace osdn::bench
