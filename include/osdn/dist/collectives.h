#pragma once
// Sums and copies of a bucket between ranks: on host memory through the World's
// transport, on GPUs through NCCL or, on one host, by copies between their
// memories. Sums are in a fixed order, so that the same ranks give the same
// bits.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "osdn/core/tensor_view.h"
#include "osdn/dist/world.h"

struct CUstream_st;

namespace osdn::dist {

/// A whole bucket in memory, the ranks' shards one after the other.
struct BucketMemory {
  std::string what;  ///< for messages
  DType dtype = DType::kF32;
  void* data = nullptr;
  std::int64_t shard = 0;  ///< elements of a rank

  std::int64_t shard_bytes() const {
    return shard * static_cast<std::int64_t>(size_of(dtype));
  }
  std::byte* shard_of(int rank) const {
    return static_cast<std::byte*>(data) + rank * shard_bytes();
  }
};

/// Operations are done in order, beside the caller's computation. Each begins
/// when what the caller had queued by then on its stream is done. All ranks
/// make the same calls in the same order.
class Collectives {
 public:
  using Ticket = std::uint64_t;
  virtual ~Collectives() = default;

  /// "mpi", "nccl", "peer".
  virtual std::string name() const = 0;
  /// Operations cost the computation less in one burst than spread over it.
  virtual bool prefers_bursts() const { return false; }
  /// Collective: these buckets will be summed (others can only be gathered, and
  /// more slowly). The memory must stay where it is until this is destroyed.
  virtual void reach(const std::vector<BucketMemory>& /*buckets*/) {}
  /// This rank's shard becomes the sum over the ranks; the rest is undefined.
  virtual Ticket sum_to_shards(const BucketMemory& bucket) = 0;
  /// All of the bucket becomes the sum over the ranks.
  virtual Ticket sum(const BucketMemory& bucket) = 0;
  /// Every shard becomes its rank's.
  virtual Ticket gather_shards(const BucketMemory& bucket) = 0;
  /// What the caller queues from now on finds the operation done; on the host
  /// it returns when it is. Once for each ticket.
  virtual void wait(Ticket ticket) = 0;
};

/// On host memory. bf16 is summed in fp32 and rounded once.
std::unique_ptr<Collectives> host_collectives(World& world);

/// What collectives on GPUs take from their caller.
struct GpuWork {
  /// The stream that the caller works on at the time of a call.
  std::function<CUstream_st*()> stream;
  /// So many bytes of the GPU's memory.
  std::function<std::shared_ptr<void>(std::int64_t bytes)> memory;
};

/// On the memory of this rank's GPU, through NCCL on a stream of its own.
/// Throws Error when NCCL is missing or does not start in time.
std::unique_ptr<Collectives> nccl_collectives(World& world, GpuWork gpu);

/// On the memory of the GPUs of one host, by their copy engines. Sums are in
/// rank order; bf16 is summed in fp32 and rounded once, as on the host. To make
/// and to destroy it is collective. Throws AgreedError, whose rank 0 says why,
/// when the ranks are on several hosts or their GPUs do not reach one another.
std::unique_ptr<Collectives> peer_collectives(World& world, GpuWork gpu);

/// The trouble of this process's NCCL communicator, empty for none, for the
/// watch; and its end, so that no kernel waits for a rank that is gone.
std::string nccl_trouble();
void nccl_abort();

}  // namespace osdn::dist
