#include "peer_memory.h"

#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>

#include "cuda_check.h"
#include "cuda_driver.h"

namespace osdn::dist {

namespace {

// A pointer as another process can find it: its allocation, and where in it.
struct Exported {
  cudaIpcMemHandle_t allocation;
  std::uint64_t offset;
};

Exported export_pointer(void* pointer) {
  static const auto get_range = [] {
    decltype(&cuMemGetAddressRange) found = nullptr;
    find_in_driver("cuMemGetAddressRange", found);
    return found;
  }();
  CUdeviceptr begin = 0;
  std::size_t size = 0;
  const auto at = reinterpret_cast<CUdeviceptr>(pointer);
  check(get_range(&begin, &size, at), "looking up an allocation");
  Exported out{};
  out.offset = at - begin;
  check(cudaIpcGetMemHandle(&out.allocation,
                            static_cast<std::byte*>(pointer) - out.offset),
        "sharing GPU memory with other processes");
  return out;
}

}  // namespace

PeerMemory::~PeerMemory() {
  close();
}

std::vector<std::vector<std::byte*>> PeerMemory::map(
    const std::vector<void*>& mine) {
  std::string text(mine.size() * sizeof(Exported), '\0');
  world_.agree([&] {
    for (std::size_t i = 0; i < mine.size(); ++i) {
      const Exported exported = export_pointer(mine[i]);
      std::memcpy(text.data() + i * sizeof(Exported), &exported,
                  sizeof(exported));
    }
  });
  const std::vector<std::string> said = world_.all(text);
  const auto rank = static_cast<std::size_t>(world_.place().rank);
  std::vector<std::vector<std::byte*>> out(
      mine.size(), std::vector<std::byte*>(said.size()));
  world_.agree([&] {
    for (std::size_t i = 0; i < mine.size(); ++i) {
      for (std::size_t other = 0; other < said.size(); ++other) {
        Exported exported{};
        std::memcpy(&exported, said[other].data() + i * sizeof(Exported),
                    sizeof(exported));
        out[i][other] =
            other == rank
                ? static_cast<std::byte*>(mine[i])
                : open({reinterpret_cast<const char*>(&exported.allocation),
                        sizeof(exported.allocation)}) +
                      exported.offset;
      }
    }
  });
  return out;
}

std::byte* PeerMemory::open(const std::string& handle) {
  const auto known = opened_.find(handle);
  if (known != opened_.end()) return known->second;
  cudaIpcMemHandle_t allocation{};
  std::memcpy(&allocation, handle.data(), sizeof(allocation));
  void* at = nullptr;
  check(cudaIpcOpenMemHandle(&at, allocation, cudaIpcMemLazyEnablePeerAccess),
        "reaching the memory of another rank's GPU");
  return opened_[handle] = static_cast<std::byte*>(at);
}

void PeerMemory::close() {
  for (const auto& [handle, at] : opened_) cudaIpcCloseMemHandle(at);
  opened_.clear();
}

}  // namespace osdn::dist
