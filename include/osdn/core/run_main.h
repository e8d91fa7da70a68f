#pragma once
// The one place where exceptions become exit codes.

#include <functional>

#include "osdn/core/error.h"

namespace osdn {

/// Runs `program` and returns the exit code for main() to return. An exception
/// is reported once on stderr as "<program>: error: <message>"; an Error gives
/// its own code, anything else ExitCode::kFailure. Standard output is flushed
/// at the end, and a failure to write it (a full disk) is an error too. A
/// reader that leaves early (`| head -n 1`) is none: SIGPIPE is ignored, the
/// program goes on to its end, files and exit code are what they would be.
/// Standard streams that are closed are /dev/null.
int run_main(int argc, char** argv,
             const std::function<ExitCode(int, char**)>& program);

}  // namespace osdn
