#pragma once
// What has to be alike on all ranks of a run, and what must not be.

#include <string>

#include "osdn/dist/world.h"
#include "osdn/train/run.h"

namespace osdn::train {

struct RankFacts {
  std::string program;  ///< hash of the executable
  std::string config;   ///< resolved, JSON
  std::string start;    ///< "--resume auto": what its options say of that
  std::string data;     ///< fingerprint of what is trained on
  std::string validation;
  std::string device;    ///< "cpu", "cuda"
  std::string dtype;     ///< "fp32", "fp64", "bf16"
  std::string gpu_uuid;  ///< empty on the CPU
  std::string where;     ///< "NVIDIA H200, cores 0-7", for the table
};

/// Collective: rank 0 logs a line for each rank, then all throw an AgreedError
/// when they differ, naming what and between which ranks, or when two compute
/// on one GPU, unless they may share it.
void check_ranks(dist::World& world, const RankFacts& facts, bool share_gpus);

/// For RankFacts::start.
std::string start_text(const RunRequest& request);

/// Hash of the running program's file.
std::string program_hash();

}  // namespace osdn::train
