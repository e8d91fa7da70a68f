#pragma once
// Which devices the ranks of a run have: all a GPU or none, and each its own.

#include <cstddef>
#include <string>
#include <vector>

#include "osdn/dist/world.h"

namespace osdn::train {

struct RankDevice {
  std::string kind;      ///< "cpu", "cuda"
  std::string gpu_uuid;  ///< empty on the CPU
  std::string host;
};

/// "rank 1 (host node2)".
std::string rank_name(std::size_t rank, const std::string& host);

/// What does not fit, a line each; empty where all does. Several ranks on one
/// GPU are a warning instead where they may share it.
std::string device_problems(const std::vector<RankDevice>& ranks,
                            bool share_gpus);

/// Collective: all ranks throw an AgreedError when the devices that they
/// compute on do not fit. `on_gpu`: this rank on its GPU.
void check_devices(dist::World& world, bool on_gpu, bool share_gpus);

}  // namespace osdn::train
