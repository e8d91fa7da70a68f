#include "osdn/core/path.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"

namespace osdn {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (!is_folder(entry->path())) {
      files.push_back(entry->path());
    }
  }
  if (error) {
    throw Error(concat(folder.string(),
                       ": the folder cannot be listed: ", error.message()),
                ExitCode::kBadInput);
  }
  std::sort(files.begin(), files.end());
  return files;
}

fs::path file_to_write(const fs::path& path) {
  constexpr int kMostLinks = 40;  // as the kernel follows
  std::error_code error;
  fs::path target = path;
  for (int links = 0; fs::is_symlink(target, error); ++links) {
    const fs::path next = fs::read_symlink(target, error);
    if (error || links == kMostLinks) {
      throw Error(concat(path.string(), ": the link cannot be followed"),
                  ExitCode::kUsage);
    }
    target = next.is_absolute() ? next : target.parent_path() / next;
  }
  const fs::file_status status = fs::status(target, error);
  if (fs::exists(status) && !fs::is_regular_file(status) &&
      !fs::is_directory(status)) {
    throw Error(concat(path.string(),
                       ": is a device, pipe or socket; expected the name of a "
                       "file"),
                ExitCode::kUsage);
  }
  return target;
}

void check_creatable(const fs::path& path) {
  if (is_folder(path)) {
    throw Error(concat(path.string(),
                       ": is a folder; expected the name of a "
                       "file"),
                ExitCode::kUsage);
  }
  fs::path probe = file_to_write(path);
  probe += concat(".probe-", ::getpid());
  const int descriptor =
      ::open(probe.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor < 0) {
    throw Error(concat(path.string(),
                       ": no file can be made there: ", std::strerror(errno)),
                ExitCode::kUsage);
  }
  ::close(descriptor);
  ::unlink(probe.c_str());
}

void check_folder_creatable(const fs::path& folder) {
  fs::path there = fs::absolute(folder).lexically_normal();
  while (!is_there(there) && there.has_relative_path()) {
    there = there.parent_path();
  }
  if (!is_folder(there)) {
    throw Error(concat(folder.string(), ": ", there.string(),
                       " is no folder; expected the name of one"),
                ExitCode::kUsage);
  }
  check_creatable(there / "file");
}

}  // namespace osdn
