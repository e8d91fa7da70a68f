#pragma once
// A folder of its own for a test, removed with all it holds at the end.

#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

namespace osdn::test {

class TempDir {
 public:
  explicit TempDir(const std::filesystem::path& parent =
                       std::filesystem::temp_directory_path()) {
    std::string pattern = (parent / "osdn-test-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) {
      throw std::runtime_error("mkdtemp " + pattern + ": " +
                               std::strerror(errno));
    }
    path_ = pattern;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  /// In memory where the machine offers that: for tests that sync or write a
  /// lot and would only measure the disk.
  static std::filesystem::path memory() {
    const std::filesystem::path shm = "/dev/shm";
    return std::filesystem::is_directory(shm)
               ? shm
               : std::filesystem::temp_directory_path();
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(std::string_view name) const {
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace osdn::test
