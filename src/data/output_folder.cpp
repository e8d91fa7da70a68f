#include "output_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <system_error>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "osdn/core/path.h"
#include "osdn/data/token_dataset.h"

namespace osdn::data {

namespace fs = std::filesystem;

namespace {

// The first thing in a folder that we did not make and so must not remove.
std::optional<fs::path> first_foreign(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_regular_file() ||
        (!name.ends_with(kShardEnding) &&
         name.find(concat(kShardEnding, ".tmp-")) == std::string::npos)) {
      return entry.path();
    }
  }
  return std::nullopt;
}

void remove_shards(const fs::path& folder) {
  if (!fs::exists(folder)) {
    return;
  }
  if (const auto foreign = first_foreign(folder)) {
    throw Error(concat(foreign->string(),
                       ": is no token shard, so its folder is not removed; "
                       "move it away or choose another output"),
                ExitCode::kUsage);
  }
  fs::remove_all(folder);
}

fs::path with_suffix(const fs::path& path, const char* suffix) {
  // "shards/" and "shards" mean the same folder.
  fs::path clean = path.lexically_normal();
  if (!clean.has_filename()) {
    clean = clean.parent_path();
  }
  clean += suffix;
  return clean;
}

}  // namespace

OutputFolder::OutputFolder(const fs::path& path, bool overwrite)
    : path_(with_suffix(path, "")), partial_(with_suffix(path, ".partial")) {
  if (is_there(path_) && !is_folder(path_)) {
    throw Error(
        concat(path_.string(), ": is a file; the output is a folder of shards"),
        ExitCode::kUsage);
  }
  if (fs::exists(path_) && !fs::is_empty(path_)) {
    if (!overwrite) {
      throw Error(concat(path_.string(),
                         ": exists already; choose another output or give "
                         "--overwrite to replace it"),
                  ExitCode::kUsage);
    }
    if (const auto foreign = first_foreign(path_)) {
      throw Error(concat(foreign->string(),
                         ": is no token shard, so its folder is not "
                         "overwritten; choose another output"),
                  ExitCode::kUsage);
    }
  }
  fs::create_directories(partial_);
  lock_ = ::open(partial_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_ < 0 || ::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    const std::string reason = errno == EWOULDBLOCK
                                   ? "another run is writing to this output"
                                   : std::strerror(errno);
    if (lock_ >= 0) {
      ::close(lock_);
    }
    throw Error(concat(partial_.string(), ": cannot be locked: ", reason));
  }
  try {
    if (const auto foreign = first_foreign(partial_)) {
      throw Error(concat(foreign->string(),
                         ": is in the way of the files to be written; move "
                         "it away or choose another output"),
                  ExitCode::kUsage);
    }
    for (const auto& entry : fs::directory_iterator(partial_)) {
      fs::remove(entry.path());
    }
  } catch (...) {
    ::close(lock_);
    throw;
  }
}

OutputFolder::~OutputFolder() {
  if (!committed_) {
    std::error_code ignored;
    fs::remove_all(partial_, ignored);
  }
  ::close(lock_);
}

void OutputFolder::commit() {
  if (fs::exists(path_) && !fs::is_empty(path_)) {
    const fs::path old = with_suffix(path_, ".old");
    remove_shards(old);
    rename_synced(path_, old);
    rename_synced(partial_, path_);
    committed_ = true;
    remove_shards(old);
    return;
  }
  rename_synced(partial_, path_);
  committed_ = true;
}

}  // namespace osdn::data
