// Collectives on GPU memory. libnccl is opened when it is first needed:
// programs start on machines without it, and use the very library that LibTorch
// has loaded where both are there.

#include <cuda_runtime.h>
#include <dlfcn.h>
#include <nccl.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/dist/collectives.h"
#include "side_work.h"

namespace osdn::dist {

namespace {

struct Nccl {
  decltype(&ncclGetUniqueId) get_unique_id;
  decltype(&ncclCommInitRankConfig) comm_init_rank_config;
  decltype(&ncclCommGetAsyncError) comm_get_async_error;
  decltype(&ncclCommAbort) comm_abort;
  decltype(&ncclReduceScatter) reduce_scatter;
  decltype(&ncclAllGather) all_gather;
  decltype(&ncclGetErrorString) get_error_string;
};

template <typename F>
void find(void* library, const char* name, F& function) {
  void* const symbol = ::dlsym(library, name);
  if (symbol == nullptr) {
    throw Error(concat("libnccl.so.2 has no ", name,
                       "; NCCL 2.18 or later is "
                       "needed"));
  }
  std::memcpy(&function, &symbol, sizeof(function));
}

const Nccl& nccl() {
  static const Nccl functions = [] {
    void* const library = ::dlopen("libnccl.so.2", RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) {
      throw Error(concat("NCCL does not load: ", ::dlerror(),
                         "; put its folder into LD_LIBRARY_PATH"));
    }
    Nccl f{};
    find(library, "ncclGetUniqueId", f.get_unique_id);
    find(library, "ncclCommInitRankConfig", f.comm_init_rank_config);
    find(library, "ncclCommGetAsyncError", f.comm_get_async_error);
    find(library, "ncclCommAbort", f.comm_abort);
    find(library, "ncclReduceScatter", f.reduce_scatter);
    find(library, "ncclAllGather", f.all_gather);
    find(library, "ncclGetErrorString", f.get_error_string);
    return f;
  }();
  return functions;
}

void check(ncclResult_t result, const std::string& what) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  throw LinkError(concat("NCCL failed in ", what, ": ",
                         nccl().get_error_string(result),
                         "; NCCL_DEBUG=INFO says more"));
}

ncclDataType_t nccl_type(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return ncclFloat32;
    case DType::kF64:
      return ncclFloat64;
    case DType::kBF16:
      return ncclBfloat16;
    default:
      throw Error("gradients are summed in F64, F32 or BF16");
  }
}

// The process's communicator, for the watch's thread.
std::mutex communicator_mutex;
ncclComm_t communicator = nullptr;

std::string hex(const ncclUniqueId& id) {
  return std::string(id.internal, sizeof(id.internal));
}

class NcclCollectives final : public Collectives {
 public:
  NcclCollectives(World& world, GpuWork gpu)
      : world_(world), work_(std::move(gpu.stream)) {
    start();
  }
  ~NcclCollectives() override {
    const std::lock_guard lock(communicator_mutex);
    if (communicator == nullptr) return;
    cudaStreamSynchronize(work_.stream());
    nccl().comm_abort(communicator);  // idle by now: frees it without a talk
    communicator = nullptr;
  }

  std::string name() const override { return "nccl"; }
  Ticket sum(const BucketMemory& bucket) override {
    reduce(bucket);
    return gather_shards(bucket);
  }

  Ticket sum_to_shards(const BucketMemory& bucket) override {
    reduce(bucket);
    return work_.mark();
  }

  Ticket gather_shards(const BucketMemory& bucket) override {
    work_.follow();
    call(bucket.what, [&] {
      return nccl().all_gather(
          bucket.shard_of(world_.place().rank), bucket.data,
          static_cast<std::size_t>(bucket.shard), nccl_type(bucket.dtype),
          communicator, work_.stream());
    });
    return work_.mark();
  }

  void wait(Ticket ticket) override { work_.wait(ticket); }

 private:
  void reduce(const BucketMemory& bucket) {
    work_.follow();
    call(bucket.what, [&] {
      return nccl().reduce_scatter(
          bucket.data, bucket.shard_of(world_.place().rank),
          static_cast<std::size_t>(bucket.shard), nccl_type(bucket.dtype),
          ncclSum, communicator, work_.stream());
    });
  }

  void start() {
    const auto begin = std::chrono::steady_clock::now();
    ncclUniqueId id{};
    if (world_.place().first()) {
      check(nccl().get_unique_id(&id), "ncclGetUniqueId");
    }
    const std::string shared = world_.from_first(hex(id));
    std::memcpy(id.internal, shared.data(), sizeof(id.internal));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    // Its thread blocks one by one: clusters of them, NCCL's choice on Hopper,
    // wait for neighbouring multiprocessors to be free at once, while the
    // backward has them (docs/results/two_gpus.md).
    config.cgaClusterSize = 0;
    ncclComm_t fresh = nullptr;
    check(nccl().comm_init_rank_config(&fresh, world_.place().size, id,
                                       world_.place().rank, &config),
          "ncclCommInitRankConfig");
    {
      const std::lock_guard lock(communicator_mutex);
      communicator = fresh;
    }
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) {
      check(nccl().comm_get_async_error(fresh, &state), "starting NCCL");
      if (std::chrono::steady_clock::now() - begin > world_.timeout()) {
        nccl_abort();
        throw Error(concat(
            "NCCL did not start within ", world_.timeout().count(),
            " s on host ", world_.place().host,
            ": a rank or host cannot be reached; NCCL_SOCKET_IFNAME names the "
            "network interface to use, NCCL_DEBUG=INFO says more"));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    check(state, "starting NCCL");
  }

  template <typename F>
  void call(const std::string& what, const F& function) {
    ncclResult_t state = function();
    while (state == ncclInProgress) {
      check(nccl().comm_get_async_error(communicator, &state), what);
    }
    check(state, what);
  }

  World& world_;
  SideWork work_;
};

}  // namespace

std::unique_ptr<Collectives> nccl_collectives(World& world, GpuWork gpu) {
  return std::make_unique<NcclCollectives>(world, std::move(gpu));
}

std::string nccl_trouble() {
  const std::lock_guard lock(communicator_mutex);
  if (communicator == nullptr) return "";
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = nccl().comm_get_async_error(communicator, &state);
  const ncclResult_t bad = asked != ncclSuccess ? asked : state;
  if (bad == ncclSuccess || bad == ncclInProgress) return "";
  return concat("NCCL failed: ", nccl().get_error_string(bad));
}

void nccl_abort() {
  const std::lock_guard lock(communicator_mutex);
  if (communicator == nullptr) return;
  nccl().comm_abort(communicator);
  communicator = nullptr;
}

}  // namespace osdn::dist
