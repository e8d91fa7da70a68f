// osdn-train with something wrong on one rank at one step:
//
//   mpirun -n 2 poisoned_rank CONFIG RUN_DIR RANK STEP
//     nan|throw|hang|dead_disk|slow_disk
//
// nan: in its gradients; throw: an exception; hang: its thread never goes on;
// from that step on dead_disk: syncing a checkpoint's file never ends;
// slow_disk: it takes 1.5 s.

#include <ATen/Tensor.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <string>
#include <thread>

#include "apps/first_speaks.h"
#include "osdn/config/reader.h"
#include "osdn/core/run_main.h"
#include "osdn/model/language_model.h"
#include "osdn/train/run.h"

namespace {

enum class Disk { kSound, kDead, kSlow };
std::atomic<Disk> disk{Disk::kSound};

bool is_of_checkpoint(int file) {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(file),
                                       ignored)
             .string()
             .find("/checkpoints/step_") != std::string::npos;
}

}  // namespace

/// In place of the C library's, which this program's own comes before.
extern "C" int fsync(int file) {
  while (disk == Disk::kDead && is_of_checkpoint(file)) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  if (disk == Disk::kSlow && is_of_checkpoint(file)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  }
  return static_cast<int>(::syscall(SYS_fsync, file));
}

namespace {

osdn::ExitCode train(int argc, char** argv) {
  if (argc != 6) {
    throw osdn::Error(
        "usage: poisoned_rank CONFIG RUN_DIR RANK STEP "
        "nan|throw|hang|dead_disk|slow_disk",
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
    if (done >= step && what.ends_with("_disk")) {
      disk = what == "dead_disk" ? Disk::kDead : Disk::kSlow;
    }
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
