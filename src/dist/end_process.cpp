#include "osdn/dist/end_process.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/dist/collectives.h"

namespace osdn::dist {

std::function<void(const RankFailure&)> end_process(
    const std::string& program,
    const std::function<void(const std::string& line)>& record) {
  return [program, record](const RankFailure& failure) {
    const std::string line =
        concat(program, ": error: ", describe(failure), "\n");
    std::fwrite(line.data(), 1, line.size(), stderr);
    std::fflush(stderr);
    // The disk may be what has failed.
    if (record) std::thread(record, line).detach();
    // NCCL's kernels may wait for that rank; so may the abort.
    std::thread(nccl_abort).detach();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    std::_Exit(static_cast<int>(ExitCode::kFailure));
  };
}

}  // namespace osdn::dist
