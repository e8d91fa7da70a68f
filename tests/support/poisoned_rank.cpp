// osdn-train with a NaN in the gradients of one rank at one step:
//
//   mpirun -n 2 poisoned_rank CONFIG RUN_DIR RANK STEP

#include <ATen/Tensor.h>

#include <cmath>
#include <string>

#include "osdn/config/reader.h"
#include "osdn/core/run_main.h"
#include "osdn/model/language_model.h"
#include "osdn/train/run.h"

namespace {

osdn::ExitCode train(int argc, char** argv) {
  if (argc != 5) {
    throw osdn::Error("usage: poisoned_rank CONFIG RUN_DIR RANK STEP",
                      osdn::ExitCode::kUsage);
  }
  osdn::dist::World world;
  osdn::train::RunRequest request;
  request.world = &world;
  request.config = osdn::config::load({argv[1], {}});
  request.config.run_dir = argv[2];
  const int rank = std::stoi(argv[3]);
  const std::int64_t step = std::stoll(argv[4]);
  bool poison = false;
  bool hooked = false;
  request.observer = [&](std::int64_t done,
                         const osdn::model::LanguageModel& model) {
    if (world.place().rank != rank) return;
    poison = done + 1 == step;
    if (hooked) return;
    hooked = true;
    model.parameters().front().tensor.register_hook(
        [&poison](const at::Tensor& gradient) {
          return poison ? gradient.mul(std::nan("")) : gradient;
        });
  };
  osdn::train::run(request);
  return osdn::ExitCode::kOk;
}

}  // namespace

int main(int argc, char** argv) {
  return osdn::run_main(argc, argv, train);
}
