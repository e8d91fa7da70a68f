// osdn-train with something wrong on one rank at one step:
//
//   mpirun -n 2 poisoned_rank CONFIG RUN_DIR RANK STEP nan|throw|hang
//
// nan: in its gradients; throw: an exception; hang: its thread never goes on.

#include <ATen/Tensor.h>

#include <chrono>
#include <cmath>
#include <string>
#include <thread>

#include "apps/first_speaks.h"
#include "osdn/config/reader.h"
#include "osdn/core/run_main.h"
#include "osdn/model/language_model.h"
#include "osdn/train/run.h"

namespace {

osdn::ExitCode train(int argc, char** argv) {
  if (argc != 6) {
    throw osdn::Error(
        "usage: poisoned_rank CONFIG RUN_DIR RANK STEP nan|throw|hang",
        osdn::ExitCode::kUsage);
  }
  osdn::dist::World world;
  osdn::train::RunRequest request;
  osdn::apps::first_speaks(world);
  request.world = &world;
  request.config = osdn::config::load({argv[1], {}});
  request.config.run_dir = argv[2];
  const int rank = std::stoi(argv[3]);
  const std::int64_t step = std::stoll(argv[4]);
  const std::string what = argv[5];
  bool poison = false;
  bool hooked = false;
  request.observer = [&](std::int64_t done,
                         const osdn::model::LanguageModel& model) {
    if (world.place().rank != rank) return;
    if (what == "throw" && done == step) {
      throw osdn::Error("this rank was told to fail");
    }
    while (what == "hang" && done == step) {
      std::this_thread::sleep_for(std::chrono::seconds(1));
    }
    poison = what == "nan" && done + 1 == step;
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
