#include "osdn/core/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/narrow.h"
#include "osdn/core/path.h"

namespace osdn {

namespace {

namespace fs = std::filesystem;

// Linux moves at most 2 GiB - 4 KiB in one call; stay below on purpose.
constexpr std::size_t kLargestCall = std::size_t{1} << 30;

std::string reason() {
  return std::strerror(errno);
}

[[noreturn]] void fail(const fs::path& path, const std::string& what,
                       ExitCode code = ExitCode::kFailure) {
  const std::string why = reason();
  throw Error(concat(path.string(), ": ", what, ": ", why), code);
}

off_t to_offset(std::uint64_t offset, const fs::path& path) {
  return narrow<off_t>(offset, path.string() + ": offset");
}

fs::path folder_of(const fs::path& path) {
  const fs::path folder = path.parent_path();
  return folder.empty() ? fs::path(".") : folder;
}

}  // namespace

File::File(fs::path path, int flags) : path_(std::move(path)) {
  do {
    descriptor_ = ::open(path_.c_str(), flags | O_CLOEXEC, 0666);
  } while (descriptor_ < 0 && errno == EINTR);
  const bool reading = (flags & O_ACCMODE) == O_RDONLY;
  if (descriptor_ < 0) {
    fail(path_, reading ? "cannot be opened for reading" : "cannot be written",
         reading ? ExitCode::kBadInput : ExitCode::kFailure);
  }
  struct stat status {};
  if (reading && ::fstat(descriptor_, &status) == 0 &&
      S_ISDIR(status.st_mode)) {
    ::close(std::exchange(descriptor_, -1));
    throw Error(concat(path_.string(), ": is a folder, expected a file"),
                ExitCode::kBadInput);
  }
}

File File::open_read(const fs::path& path) {
  return {path, O_RDONLY};
}

File File::create(const fs::path& path) {
  return {path, O_RDWR | O_CREAT | O_TRUNC};
}

File File::open_update(const fs::path& path) {
  return {path, O_RDWR};
}

File File::open_append(const fs::path& path) {
  return {path, O_WRONLY | O_CREAT | O_APPEND};
}

File::~File() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

File::File(File&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

File& File::operator=(File&& other) noexcept {
  if (this != &other) {
    if (descriptor_ >= 0) {
      ::close(descriptor_);
    }
    path_ = std::move(other.path_);
    descriptor_ = std::exchange(other.descriptor_, -1);
  }
  return *this;
}

std::size_t File::read(void* out, std::size_t size) {
  auto* bytes = static_cast<char*>(out);
  std::size_t done = 0;
  while (done < size) {
    const ssize_t got =
        ::read(descriptor_, bytes + done, std::min(size - done, kLargestCall));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      fail(path_, "reading failed", ExitCode::kBadInput);
    }
    if (got == 0) {
      break;
    }
    done += static_cast<std::size_t>(got);
  }
  return done;
}

void File::read_at(std::uint64_t offset, void* out, std::size_t size) const {
  auto* bytes = static_cast<char*>(out);
  std::size_t done = 0;
  while (done < size) {
    const ssize_t got =
        ::pread(descriptor_, bytes + done, std::min(size - done, kLargestCall),
                to_offset(offset + done, path_));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      fail(path_, concat("reading at offset ", offset + done, " failed"),
           ExitCode::kBadInput);
    }
    if (got == 0) {
      throw Error(concat(path_.string(), ": ends at offset ", offset + done,
                         ", but ", size, " bytes were expected at offset ",
                         offset, "; the file was cut short"),
                  ExitCode::kBadInput);
    }
    done += static_cast<std::size_t>(got);
  }
}

void File::write(const void* data, std::size_t size) {
  const auto* bytes = static_cast<const char*>(data);
  std::size_t done = 0;
  while (done < size) {
    const ssize_t put =
        ::write(descriptor_, bytes + done, std::min(size - done, kLargestCall));
    if (put < 0 && errno == EINTR) {
      continue;
    }
    if (put <= 0) {
      fail(path_, concat("writing ", size - done, " bytes failed"));
    }
    done += static_cast<std::size_t>(put);
  }
}

void File::write_at(std::uint64_t offset, const void* data, std::size_t size) {
  const auto* bytes = static_cast<const char*>(data);
  std::size_t done = 0;
  while (done < size) {
    const ssize_t put =
        ::pwrite(descriptor_, bytes + done, std::min(size - done, kLargestCall),
                 to_offset(offset + done, path_));
    if (put < 0 && errno == EINTR) {
      continue;
    }
    if (put <= 0) {
      fail(path_, concat("writing at offset ", offset + done, " failed"));
    }
    done += static_cast<std::size_t>(put);
  }
}

std::uint64_t File::size() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) {
    fail(path_, "its size cannot be read", ExitCode::kBadInput);
  }
  return static_cast<std::uint64_t>(status.st_size);
}

void File::truncate(std::uint64_t size) {
  if (::ftruncate(descriptor_, to_offset(size, path_)) != 0) {
    fail(path_, concat("cutting it to ", size, " bytes failed"));
  }
}

void File::sync() {
  if (::fsync(descriptor_) != 0) {
    fail(path_, "syncing to disk failed");
  }
}

void File::close() {
  if (descriptor_ >= 0 && ::close(std::exchange(descriptor_, -1)) != 0 &&
      errno != EINTR) {
    fail(path_, "closing failed");
  }
}

AtomicFile::AtomicFile(const fs::path& path) : path_(file_to_write(path)) {
  static std::atomic<std::uint64_t> counter{0};
  temporary_ = path_;
  temporary_ += concat(".tmp-", ::getpid(), "-", counter++);
  file_ = File::create(temporary_);
}

AtomicFile::~AtomicFile() {
  if (!committed_) {
    ::unlink(temporary_.c_str());
  }
}

void AtomicFile::commit() {
  file_.sync();
  file_.close();
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    fail(path_, concat("renaming ", temporary_.string(), " to it failed"));
  }
  committed_ = true;
  sync_folder(folder_of(path_));
}

std::string read_file(const fs::path& path) {
  File file = File::open_read(path);
  std::string content;
  // The size is a hint only: files in /proc say 0 and have content.
  content.resize(narrow<std::size_t>(file.size(), path.string() + ": size") +
                 1);
  std::size_t done = 0;
  for (;;) {
    done += file.read(content.data() + done, content.size() - done);
    if (done < content.size()) {
      content.resize(done);
      return content;
    }
    content.resize(2 * content.size());
  }
}

std::uint64_t size_of_file(const fs::path& path) {
  return File::open_read(path).size();
}

void write_file_atomic(const fs::path& path, std::string_view content) {
  AtomicFile out(path);
  out.file().write(content);
  out.commit();
}

void rename_synced(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) {
    fail(to, concat("renaming ", from.string(), " to it failed"));
  }
  sync_folder(folder_of(to));
  if (folder_of(from) != folder_of(to)) {
    sync_folder(folder_of(from));
  }
}

void sync_folder(const fs::path& folder) {
  const int descriptor =
      ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) {
    fail(folder, "the folder cannot be opened");
  }
  const int result = ::fsync(descriptor);
  const int error = errno;
  ::close(descriptor);
  // Some network file systems have no fsync of folders and say so.
  if (result != 0 && error != EINVAL && error != ENOTSUP) {
    errno = error;
    fail(folder, "syncing the folder to disk failed");
  }
}

}  // namespace osdn
