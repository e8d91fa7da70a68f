#pragma once
// Memory of the GPUs of this host's other ranks, mapped into this process (CUDA
// IPC), so that a copy engine reaches it over NVLink or PCIe.

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "osdn/dist/world.h"

namespace osdn::dist {

class PeerMemory {
 public:
  explicit PeerMemory(World& world) : world_(world) {}
  ~PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  /// Collective, as many pointers on every rank: for each pointer those of all
  /// ranks, by rank, as this process sees them. What they point into must stay
  /// until close(). Throws AgreedError where the GPUs do not reach one another.
  std::vector<std::vector<std::byte*>> map(const std::vector<void*>& mine);
  /// Gives the others' memory up.
  void close();
  /// The same, but it stays mapped for the process's life.
  void leave_open() { opened_.clear(); }

 private:
  std::byte* open(const std::string& handle);

  World& world_;
  std::map<std::string, std::byte*> opened_;  // by handle
};

}  // namespace osdn::dist
