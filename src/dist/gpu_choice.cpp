#include "osdn/dist/gpu_choice.h"

#include <cstdlib>
#include <sstream>
#include <vector>

#include "osdn/core/concat.h"
#include "osdn/core/env.h"
#include "osdn/core/error.h"
#include "osdn/core/host.h"

namespace osdn::dist {

std::string visible_gpu(const std::optional<std::string>& visible,
                        const Place& place) {
  if (!visible) return std::to_string(place.local_rank);
  std::vector<std::string> gpus;
  std::istringstream list(*visible);
  for (std::string gpu; std::getline(list, gpu, ',');) gpus.push_back(gpu);
  if (gpus.size() <= 1) return *visible;
  if (static_cast<std::size_t>(place.local_size) > gpus.size()) {
    throw Error(
        concat("host ", place.host, " has ", place.local_size,
               " ranks and CUDA_VISIBLE_DEVICES=", *visible, " shows them ",
               gpus.size(), " GPUs; start one rank a GPU"),
        ExitCode::kUsage);
  }
  return gpus[static_cast<std::size_t>(place.local_rank)];
}

void take_own_gpu(const Place& place) {
  if (!launched_rank()) return;
  const std::string gpu = visible_gpu(env("CUDA_VISIBLE_DEVICES"), place);
  ::setenv("CUDA_VISIBLE_DEVICES", gpu.c_str(), 1);
}

}  // namespace osdn::dist
