#include "peer_flags.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "cuda_check.h"
#include "cuda_driver.h"

namespace osdn::dist {

namespace {

// A word has a cache line of its own.
constexpr std::size_t kWordBytes = 64;
constexpr std::size_t kWords = 2;
// Far ahead of a value that is awaited, and not yet around.
constexpr std::uint32_t kAhead = 1U << 30U;

decltype(&cuStreamBatchMemOp) batch_mem_op() {
  static const auto function = [] {
    decltype(&cuStreamBatchMemOp) found = nullptr;
    find_in_driver("cuStreamBatchMemOp", found);
    return found;
  }();
  return function;
}

void run(std::vector<CUstreamBatchMemOpParams> operations,
         cudaStream_t stream) {
  if (operations.empty()) return;
  check(batch_mem_op()(stream, static_cast<unsigned>(operations.size()),
                       operations.data(), 0),
        "a flag between ranks");
}

std::string fresh_name() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  return concat("/osdn-", ::getpid(), "-", now);
}

int open_shared(const std::string& name, int flags) {
  const int file = ::shm_open(name.c_str(), flags | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0) {
    throw Error(concat("shared memory ", name, ": ", std::strerror(errno)));
  }
  return file;
}

}  // namespace

PeerFlags::PeerFlags(World& world)
    : world_(world),
      size_(kWords * static_cast<std::size_t>(world.place().size) *
            static_cast<std::size_t>(world.place().size) * kWordBytes) {
  const Place& place = world_.place();
  const std::string name = world_.from_first(fresh_name());
  try {
    world_.agree([&] {
      batch_mem_op();
      if (place.first()) map(open_shared(name, O_CREAT | O_EXCL));
    });
    world_.agree([&] {
      if (!place.first()) map(open_shared(name, 0));
    });
    // All have it: whatever happens from now on, nothing is left of it.
    if (place.first()) ::shm_unlink(name.c_str());
    world_.agree([&] { show_to_gpu(); });
  } catch (...) {
    unmap();
    if (place.first()) ::shm_unlink(name.c_str());
    throw;
  }
}

PeerFlags::~PeerFlags() {
  unmap();
}

// Takes the file over, which is as long as the first one makes it.
void PeerFlags::map(int file) {
  void* at = MAP_FAILED;
  if (::ftruncate(file, static_cast<off_t>(size_)) == 0) {
    at = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  const int error = errno;
  ::close(file);
  if (at == MAP_FAILED) {
    throw Error(concat("mapping shared memory: ", std::strerror(error)));
  }
  memory_ = static_cast<std::byte*>(at);
}

void PeerFlags::show_to_gpu() {
  check(cudaHostRegister(memory_, size_, cudaHostRegisterMapped),
        "registering shared memory");
  void* seen = nullptr;
  const cudaError_t asked = cudaHostGetDevicePointer(&seen, memory_, 0);
  if (asked != cudaSuccess) cudaHostUnregister(memory_);
  check(asked, "registering shared memory");
  on_device_ = reinterpret_cast<std::uintptr_t>(seen);
}

void PeerFlags::unmap() {
  if (memory_ == nullptr) return;
  if (on_device_ != 0) cudaHostUnregister(memory_);
  ::munmap(memory_, size_);
  memory_ = nullptr;
}

// The word in which rank `of` finds what `by` has told it.
std::size_t PeerFlags::offset(Word word, int of, int by) const {
  const auto size = static_cast<std::size_t>(world_.place().size);
  const std::size_t row =
      static_cast<std::size_t>(word) * size + static_cast<std::size_t>(of);
  return (row * size + static_cast<std::size_t>(by)) * kWordBytes;
}

void PeerFlags::tell(Word word, std::uint32_t value,
                     cudaStream_t stream) const {
  const Place& place = world_.place();
  std::vector<CUstreamBatchMemOpParams> writes;
  for (int rank = 0; rank < place.size; ++rank) {
    if (rank == place.rank) continue;
    CUstreamBatchMemOpParams write{};
    write.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    write.writeValue.address = on_device_ + offset(word, rank, place.rank);
    write.writeValue.value = value;
    write.writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
    writes.push_back(write);
  }
  run(std::move(writes), stream);
}

void PeerFlags::await(Word word, std::uint32_t value,
                      cudaStream_t stream) const {
  const Place& place = world_.place();
  std::vector<CUstreamBatchMemOpParams> waits;
  for (int rank = 0; rank < place.size; ++rank) {
    if (rank == place.rank) continue;
    CUstreamBatchMemOpParams wait{};
    wait.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    wait.waitValue.address = on_device_ + offset(word, place.rank, rank);
    wait.waitValue.value = value;
    wait.waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
    waits.push_back(wait);
  }
  run(std::move(waits), stream);
}

void PeerFlags::let_go() const {
  const Place& place = world_.place();
  for (const Word word : {Word::kReady, Word::kRead}) {
    for (int rank = 0; rank < place.size; ++rank) {
      auto* at = reinterpret_cast<std::uint32_t*>(
          memory_ + offset(word, place.rank, rank));
      std::atomic_ref<std::uint32_t> flag(*at);
      flag.store(flag.load() + kAhead);
    }
  }
}

}  // namespace osdn::dist
