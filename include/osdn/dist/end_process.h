#pragma once
// The end of a rank whose fellows have failed.

#include <functional>
#include <string>

#include "osdn/dist/watch.h"

namespace osdn::dist {

/// For WatchOptions::on_failure: says "<program>: error: rank 2 (host ...):
/// why" on standard error, gives NCCL's communicator up, and ends this process
/// at once with ExitCode::kFailure. What it works on needs all ranks. `record`,
/// if any, gets that line as well: a launcher that is gone shows nothing of
/// standard error. It is not waited for longer than 200 ms.
std::function<void(const RankFailure&)> end_process(
    const std::string& program,
    const std::function<void(const std::string& line)>& record = {});

}  // namespace osdn::dist
