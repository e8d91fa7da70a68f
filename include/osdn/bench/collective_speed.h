#pragma once
// How fast ranks exchange buckets of several sizes, by the collectives that
// training uses.

#include <ATen/core/Tensor.h>

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "osdn/core/tensor_view.h"
#include "osdn/dist/world.h"

namespace osdn::bench {

struct CollectiveSpeed {
  std::string exchange{};   ///< dist::Collectives::name()
  std::string operation{};  ///< "reduce_scatter", "all_gather", "all_reduce"
  DType dtype = DType::kF32;
  std::int64_t bytes = 0;  ///< of the whole bucket
  double seconds = 0;      ///< median, of the slowest rank
};

struct CollectiveSpeedOptions {
  std::vector<double> megabytes = {1, 4, 25, 100, 200, 400};
  /// Each in turn (dist.gpu_exchange), on a GPU.
  std::vector<std::string> gpu_exchanges = {"auto"};
  int warmup = 3;
  int runs = 20;
};

/// Buckets of these sizes, rounded up to equal shards, in fp32 and in bf16.
/// Collective; throws Error (kUsage) where there is one rank alone.
std::vector<CollectiveSpeed> time_collectives(
    dist::World& world, at::Device device,
    const CollectiveSpeedOptions& options);

/// One line each, with the bytes that each rank sends a second: those of the
/// bucket times (n - 1) / n, twice for an all-reduce.
std::string collectives_table(const std::vector<CollectiveSpeed>& speeds,
                              const dist::Place& place);
/// For "collectives", as read_measurements takes it.
nlohmann::ordered_json collectives_json(
    const std::vector<CollectiveSpeed>& speeds, const dist::Place& place);

}  // namespace osdn::bench
