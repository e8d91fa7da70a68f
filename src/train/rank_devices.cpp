#include "osdn/train/rank_devices.h"

#include <nlohmann/json.hpp>

#include "osdn/core/concat.h"
#include "osdn/core/log.h"
#include "osdn/ops/gpu.h"

namespace osdn::train {

std::string rank_name(std::size_t rank, const std::string& host) {
  return concat("rank ", rank, " (host ", host, ")");
}

std::string device_problems(const std::vector<RankDevice>& ranks,
                            bool share_gpus) {
  const auto name_of = [&](std::size_t rank) {
    return rank_name(rank, ranks[rank].host);
  };
  std::string problems;
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    if (ranks[rank].kind != ranks.front().kind) {
      problems +=
          concat("\n", name_of(0), " and ", name_of(rank),
                 ": they compute on different devices: ", ranks.front().kind,
                 " and ", ranks[rank].kind);
    }
    for (std::size_t other = 0; other < rank; ++other) {
      const std::string& uuid = ranks[rank].gpu_uuid;
      if (uuid.empty() || ranks[other].gpu_uuid != uuid) continue;
      const std::string both = concat(name_of(other), " and ", name_of(rank));
      if (share_gpus) {
        log::warn(both, " share one GPU, ", uuid,
                  " (dist.share_gpus): slower than one rank");
        continue;
      }
      problems += concat("\n", both, " would share one GPU, ", uuid,
                         "; start one rank a GPU (mpirun -n, "
                         "CUDA_VISIBLE_DEVICES), or set dist.share_gpus to try "
                         "ranks out");
    }
  }
  return problems;
}

void check_devices(dist::World& world, bool on_gpu, bool share_gpus) {
  using nlohmann::json;
  const json own = {{"kind", on_gpu ? "cuda" : "cpu"},
                    {"gpu_uuid", on_gpu ? ops::gpu().uuid : ""},
                    {"host", world.place().host}};
  std::vector<RankDevice> ranks;
  for (const std::string& text : world.all(own.dump())) {
    const json rank = json::parse(text);
    ranks.push_back({rank["kind"].get<std::string>(),
                     rank["gpu_uuid"].get<std::string>(),
                     rank["host"].get<std::string>()});
  }
  const std::string problems = device_problems(ranks, share_gpus);
  if (problems.empty()) return;
  world.throw_agreed(concat("the ranks do not fit together:", problems),
                     ExitCode::kUsage);
}

}  // namespace osdn::train
