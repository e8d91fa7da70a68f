#pragma once
// How fast a configuration trains on this machine, on random tokens.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "osdn/bench/timing.h"
#include "osdn/config/config.h"
#include "osdn/dist/world.h"

namespace osdn::bench {

/// A step on one rank, medians. The parts are those of its stream of
/// computation: between events on a GPU, by the clock on a CPU.
struct RankStep {
  double step_s = 0;
  /// Behind the backward, until the other ranks' gradients have come.
  double gradients_wait_s = 0;
  /// In the forward, until the last update's weights have come.
  double weights_wait_s = 0;
  /// The norm, which the ranks agree on, and the optimizer.
  double update_s = 0;
  std::int64_t memory_bytes = 0;  ///< held at most; 0 where it is not counted
  /// Of the time of forward and backward, what the host needs to hand them to
  /// the GPU (train::PassRunner::host_share); 0 where all were recorded.
  double host_share = 0;
};

/// What the other ranks do meanwhile.
enum class Company {
  kAlone,   ///< wait; rank 0 is measured
  kBeside,  ///< the same for themselves
  kLinked   ///< train the same model together
};

struct TrainSpeed {
  Company company = Company::kAlone;
  std::string exchange{};         ///< of kLinked: dist::Collectives::name()
  std::vector<RankStep> ranks{};  ///< rank 0 first; it alone with kAlone
  std::string device{};
  std::string dtype{};
  std::int64_t parameters = 0;
  std::int64_t tokens_per_step = 0;  ///< of each rank
  std::int64_t micro_batches = 1;
  std::int64_t document_tokens = 0;  ///< most of each
  double flops_per_token = 0;        ///< arch::flops_per_token
  int steps = 0;                     ///< timed
  double loss_first = 0;             ///< rank 0's, warm-up included
  double loss_last = 0;

  std::size_t fastest() const;
  std::size_t slowest() const;
  /// Of the slowest rank.
  double step_s() const { return ranks[slowest()].step_s; }
  double tokens_per_s() const {
    return static_cast<double>(tokens_per_step) / step_s();
  }
  std::int64_t memory_bytes() const;  ///< of the rank that holds most
};

struct TrainSpeedOptions {
  std::int64_t tokens = 65536;          ///< a step, on each rank
  std::int64_t micro_batches = 1;       ///< passes that share them
  std::int64_t document_tokens = 4096;  ///< each
  int warmup = 8;  ///< training.cuda_graph "auto" decides within these
  int steps = 20;
  /// Where the trace of one step more goes, for chrome://tracing: rank 0's.
  std::optional<std::filesystem::path> trace{};
};

/// Trains the configured model, whatever data it names, with the trainer's own
/// step and without the other ranks: rank 0 alone, then, where there are
/// several, each rank for itself, all at the same time. Collective. Throws
/// Error as osdn-train would, and (kUsage) for tokens that the micro-batches
/// cannot share.
std::vector<TrainSpeed> time_apart(const config::Config& config,
                                   const TrainSpeedOptions& options,
                                   dist::World& world);

/// Together with the other ranks, exchanging what osdn-train does. Collective;
/// needs ranks that a launcher started. Throws as above.
TrainSpeed time_linked(const config::Config& config,
                       const TrainSpeedOptions& options, dist::World& world);

}  // namespace osdn::bench
