#pragma once
// Words of host memory that the ranks of one host share. A rank's GPU writes
// and awaits them in the order of a stream, without its host and without
// occupying a multiprocessor.

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "osdn/dist/world.h"

namespace osdn::dist {

class PeerFlags {
 public:
  enum class Word { kReady, kRead };

  /// Collective. Throws AgreedError where host memory cannot be shared.
  explicit PeerFlags(World& world);
  ~PeerFlags();
  PeerFlags(const PeerFlags&) = delete;
  PeerFlags& operator=(const PeerFlags&) = delete;

  /// What the stream holds now is done, with its writes, before the other ranks
  /// find `value` there.
  void tell(Word word, std::uint32_t value, cudaStream_t stream) const;
  /// The stream goes on when every other rank has told this value or a later
  /// one (values go up, and around).
  void await(Word word, std::uint32_t value, cudaStream_t stream) const;
  /// What this rank's GPU awaits now counts as told, for the end of a try that
  /// failed.
  void let_go() const;
  /// The memory stays for the process's life: its GPU may still write there.
  void leave_mapped() { memory_ = nullptr; }

 private:
  std::size_t offset(Word word, int of, int by) const;
  void map(int file);
  void show_to_gpu();
  void unmap();

  World& world_;
  std::size_t size_;
  std::byte* memory_ = nullptr;   // as the host sees it
  std::uintptr_t on_device_ = 0;  // and the GPU
};

}  // namespace osdn::dist
