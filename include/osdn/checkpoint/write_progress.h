#pragma once
// How far one thread's writing has come, for another that waits for it: a disk
// that is slow and one that hangs differ in nothing else.

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>

namespace osdn::checkpoint {

class WriteProgress {
 public:
  struct Now {
    std::uint64_t count = 0;  ///< grows with everything that is done
    std::string at{};         ///< "syncing runs/a/.../model.safetensors"
  };

  /// By the writer, before each call that may take long.
  void at(const char* doing, const std::filesystem::path& what);
  /// By the writer, when one of them is through.
  void moved();

  Now now() const;

 private:
  mutable std::mutex mutex_;
  Now now_;
};

}  // namespace osdn::checkpoint
