#include "osdn/checkpoint/run_dir.h"

#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/host.h"
#include "osdn/core/path.h"
#include "osdn/core/utc_time.h"

namespace osdn::checkpoint {

namespace {

namespace fs = std::filesystem;

// What a run writes, the checkpoints first: see check_run_dir.
constexpr std::array<std::string_view, 5> kRunEntries = {
    kCheckpointFolder, kStepLogName, "log.rewound.jsonl", kConfigName,
    kFailuresName};

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw Error(concat(folder.string(),
                       ": the run's folder cannot be made: ", error.message()));
  }
}

fs::path move_run_aside(const fs::path& run_dir) {
  const std::string name = concat("replaced-", utc_now_in_name());
  fs::path target = run_dir / name;
  for (int copy = 2; fs::exists(target); ++copy) {
    target = run_dir / concat(name, "-", copy);
  }
  make_folder(target);
  for (const std::string_view entry : kRunEntries) {
    if (fs::exists(run_dir / entry)) {
      rename_synced(run_dir / entry, target / entry);
    }
  }
  return target;
}

}  // namespace

RunLock::RunLock(const fs::path& run_dir) {
  make_folder(run_dir);
  const fs::path path = run_dir / kLockName;
  // Not emptied on opening: the holder's line has to survive a second comer.
  File::open_append(path).close();
  file_ = File::open_update(path);
  int result = 0;
  do {
    result = ::flock(file_.descriptor(), LOCK_EX | LOCK_NB);
  } while (result != 0 && errno == EINTR);
  if (result != 0 && errno == EWOULDBLOCK) {
    std::string holder = read_file(path);
    holder.erase(holder.find_last_not_of('\n') + 1);
    throw Error(concat(run_dir.string(), ": is in use by ",
                       holder.empty() ? "another process" : holder,
                       "; wait for it to end, or use another run folder"),
                ExitCode::kUsage);
  }
  if (result != 0) {
    throw Error(
        concat(path.string(), ": cannot be locked: ", std::strerror(errno)));
  }
  file_.truncate(0);
  const std::string host = host_name();
  file_.write(concat("process ", ::getpid(), " on ",
                     host.empty() ? "unknown" : host, ", since ", utc_now(),
                     "\n"));
}

RunDirState check_run_dir(const fs::path& run_dir, RunDirMode mode) {
  make_folder(run_dir);
  const fs::path log = run_dir / kStepLogName;
  const fs::path checkpoints = run_dir / kCheckpointFolder;
  const bool has_log = is_there(log) && size_of_file(log) > 0;
  std::error_code error;
  const bool has_checkpoints =
      is_folder(checkpoints) && !fs::is_empty(checkpoints, error);
  RunDirState state;
  state.holds_run = has_log || has_checkpoints;
  if (!state.holds_run) {
    return state;
  }
  switch (mode) {
    case RunDirMode::kNew:
      throw Error(concat(run_dir.string(), ": holds an older run (",
                         has_checkpoints ? kCheckpointFolder : "",
                         has_checkpoints && has_log ? ", " : "",
                         has_log ? kStepLogName : "",
                         "); go on with it (--resume auto), have it moved "
                         "aside (--overwrite), or use another run folder "
                         "(--run-dir)"),
                  ExitCode::kUsage);
    case RunDirMode::kResume:
      break;
    case RunDirMode::kOverwrite:
      state.moved_to = move_run_aside(run_dir);
      state.holds_run = false;
      break;
  }
  return state;
}

}  // namespace osdn::checkpoint
