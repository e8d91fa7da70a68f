// Collectives of the ranks of one host, whose GPUs reach one another's memory:
// copy engines fetch the other ranks' parts, one short kernel adds them up. The
// backward keeps its multiprocessors, which NCCL's kernels would take from it
// (docs/results/two_gpus.md).
//
// Nobody writes into another rank's memory. An operation is, on each rank,
//
//   tell the others that the bucket is ready      await it of them
//   fetch what is this rank's from each of them
//   tell them that it has been read               (add up)
//   await that they have read, after which the bucket may change

#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cuda_check.h"
#include "kernels/shard_sum/shard_sum.cuh"
#include "osdn/dist/collectives.h"
#include "peer_flags.h"
#include "peer_memory.h"
#include "side_work.h"

namespace osdn::dist {

namespace {

using Word = PeerFlags::Word;

kernels::Element element_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return kernels::Element::kF32;
    case DType::kBF16:
      return kernels::Element::kBF16;
    default:
      throw Error("gradients are summed on GPUs in F32 or BF16");
  }
}

class PeerCollectives final : public Collectives {
 public:
  PeerCollectives(World& world, GpuWork gpu)
      : world_(world),
        gpu_(std::move(gpu)),
        work_(gpu_.stream),
        flags_(world),
        peers_(world),
        unwinding_(std::uncaught_exceptions()) {
    try {
      try_out();
    } catch (const AgreedError&) {
      give_up();
      throw;
    }
  }

  ~PeerCollectives() override {
    // What is under way ends: the others come to it, too, or the watch sees
    // that one does not and ends the process.
    cudaStreamSynchronize(work_.stream());
    peers_.close();
    // They may never come here when this rank throws.
    if (std::uncaught_exceptions() > unwinding_) return;
    try {
      world_.all("");  // nobody frees what another one has still mapped
    } catch (const std::exception&) {
      // A rank is gone, and its mappings with it.
    }
  }

  std::string name() const override { return "peer"; }
  // Links that are awake take of the power that the GPU may draw, much or
  // little as they carry: 1 to 2.5 % of its speed (docs/results/two_gpus.md).
  bool prefers_bursts() const override { return true; }

  void reach(const std::vector<BucketMemory>& buckets) override {
    try {
      map(buckets);
    } catch (const AgreedError& error) {
      world_.throw_agreed(concat(error.what(),
                                 "; dist.gpu_exchange \"nccl\" needs no such "
                                 "memory"),
                          error.code());
    }
  }

  Ticket sum_to_shards(const BucketMemory& bucket) override {
    work_.follow();
    reduce(bucket);
    return work_.mark();
  }

  Ticket sum(const BucketMemory& bucket) override {
    work_.follow();
    reduce(bucket);
    gather(bucket);
    return work_.mark();
  }

  Ticket gather_shards(const BucketMemory& bucket) override {
    work_.follow();
    if (reached_.contains(bucket.data)) {
      gather(bucket);
    } else {
      gather_through_window(bucket);
    }
    return work_.mark();
  }

  void wait(Ticket ticket) override { work_.wait(ticket); }

 private:
  const Place& place() const { return world_.place(); }

  void map(const std::vector<BucketMemory>& buckets) {
    if (place().alone()) return;
    std::vector<void*> mine;
    std::int64_t largest = 0;
    for (const BucketMemory& bucket : buckets) {
      mine.push_back(bucket.data);
      largest = std::max(largest, bucket.shard_bytes());
    }
    grow_window(largest * (place().size - 1));
    const auto mapped = peers_.map(mine);
    for (std::size_t i = 0; i < buckets.size(); ++i) {
      reached_[buckets[i].data] = mapped[i];
    }
  }

  /// Where the others' shards are fetched to, and what they do not reach by
  /// itself is shown to them. Collective.
  void grow_window(std::int64_t bytes) {
    if (bytes <= window_bytes_) return;
    std::shared_ptr<void> window;
    world_.agree([&] { window = gpu_.memory(bytes); });
    window_ = peers_.map({window.get()}).front();
    window_bytes_ = bytes;
    kept_.push_back(std::move(window));
  }

  /// Behind a try that failed, on all ranks.
  void give_up() {
    if (is_done_in(kTryTime)) {
      peers_.close();
    } else {
      // What the GPU still waits for may begin at any time: its memory must not
      // be in other hands then.
      static auto& for_ever = *new std::vector<std::shared_ptr<void>>;
      for_ever.insert(for_ever.end(), kept_.begin(), kept_.end());
      peers_.leave_open();
      flags_.leave_mapped();
    }
    world_.all("");  // nobody frees what another one has still mapped
  }

  void begin(std::uint32_t operation) const {
    flags_.tell(Word::kReady, operation, work_.stream());
    flags_.await(Word::kReady, operation, work_.stream());
  }
  void told_read(std::uint32_t operation) const {
    flags_.tell(Word::kRead, operation, work_.stream());
  }
  void all_have_read(std::uint32_t operation) const {
    flags_.await(Word::kRead, operation, work_.stream());
  }

  /// Calls fetch(rank) for every other rank, beginning with the next one, so
  /// that no two ranks fetch from the same at a time.
  template <typename Fetch>
  void from_the_others(const Fetch& fetch) const {
    for (int step = 1; step < place().size; ++step) {
      fetch((place().rank + step) % place().size);
    }
  }

  void copy(std::byte* to, const std::byte* from, std::int64_t bytes,
            const std::string& what) const {
    check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes),
                          cudaMemcpyDeviceToDevice, work_.stream()),
          what);
  }

  void reduce(const BucketMemory& bucket) {
    if (place().alone()) return;
    const std::vector<std::byte*>& at = reached(bucket);
    const std::int64_t bytes = bucket.shard_bytes();
    const std::int64_t mine = place().rank * bytes;
    std::byte* const own = at[static_cast<std::size_t>(place().rank)] + mine;
    kernels::ShardSumParams sum;
    sum.count = bucket.shard;
    sum.element = element_of(bucket.dtype);
    sum.parts = place().size;
    sum.part[place().rank] = own;
    sum.sum = own;
    const std::uint32_t operation = ++operations_;
    begin(operation);
    std::byte* into = window_[static_cast<std::size_t>(place().rank)];
    from_the_others([&](int rank) {
      copy(into, at[static_cast<std::size_t>(rank)] + mine, bytes, bucket.what);
      sum.part[rank] = into;
      into += bytes;
    });
    told_read(operation);
    kernels::shard_sum(sum, work_.stream());
    all_have_read(operation);
  }

  void gather(const BucketMemory& bucket) {
    if (place().alone()) return;
    const std::vector<std::byte*>& at = reached(bucket);
    const std::int64_t bytes = bucket.shard_bytes();
    const std::uint32_t operation = ++operations_;
    begin(operation);
    from_the_others([&](int rank) {
      copy(bucket.shard_of(rank),
           at[static_cast<std::size_t>(rank)] + rank * bytes, bytes,
           bucket.what);
    });
    told_read(operation);
    all_have_read(operation);
  }

  /// Of memory that the others do not reach: by pieces through the window.
  void gather_through_window(const BucketMemory& bucket) {
    if (place().alone()) return;
    const std::int64_t bytes = bucket.shard_bytes();
    auto* const data = static_cast<std::byte*>(bucket.data);
    for (std::int64_t begun = 0; begun < bytes; begun += window_bytes_) {
      const std::int64_t piece = std::min(window_bytes_, bytes - begun);
      copy(window_[static_cast<std::size_t>(place().rank)],
           data + place().rank * bytes + begun, piece, bucket.what);
      const std::uint32_t operation = ++operations_;
      begin(operation);
      from_the_others([&](int rank) {
        copy(data + rank * bytes + begun,
             window_[static_cast<std::size_t>(rank)], piece, bucket.what);
      });
      told_read(operation);
      all_have_read(operation);
    }
  }

  /// Where every rank has the bucket.
  const std::vector<std::byte*>& reached(const BucketMemory& bucket) const {
    const auto found = reached_.find(bucket.data);
    if (found == reached_.end()) {
      throw Error(concat(bucket.what, ": the other ranks do not reach them"));
    }
    return found->second;
  }

  /// A small sum, before anything counts on it. Throws AgreedError when it does
  /// not come, or comes out wrong.
  void try_out() {
    constexpr std::int64_t kShard = 64;
    const std::int64_t count = kShard * place().size;
    std::vector<float> values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] =
          static_cast<float>(place().rank + 1) * static_cast<float>(i + 1);
    }
    const auto bytes = values.size() * sizeof(float);
    std::shared_ptr<void> memory;
    world_.agree([&] {
      memory = gpu_.memory(static_cast<std::int64_t>(bytes));
      check(cudaMemcpy(memory.get(), values.data(), bytes,
                       cudaMemcpyHostToDevice),
            "a first exchange");
    });
    kept_.push_back(memory);  // for as long as the others have it mapped
    const BucketMemory bucket{"a first exchange", DType::kF32, memory.get(),
                              kShard};
    map({bucket});
    world_.agree([&] {
      sum(bucket);  // the caller's stream must not wait for what may not come
      if (!is_done_in(kTryTime)) {
        flags_.let_go();
        throw Error(concat("the GPUs do not answer one another within ",
                           kTryTime.count(), " s"));
      }
      check(cudaStreamQuery(work_.stream()), "a first exchange");
      check(cudaMemcpy(values.data(), memory.get(), bytes,
                       cudaMemcpyDeviceToHost),
            "a first exchange");
      const int ranks = place().size;
      const int sum_of_ranks = ranks * (ranks + 1) / 2;
      const auto factor = static_cast<float>(sum_of_ranks);
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (values[i] == factor * static_cast<float>(i + 1)) continue;
        throw Error("what the GPUs read of one another's memory is wrong");
      }
    });
  }

  bool is_done_in(std::chrono::seconds limit) const {
    const auto start = std::chrono::steady_clock::now();
    while (cudaStreamQuery(work_.stream()) == cudaErrorNotReady) {
      if (std::chrono::steady_clock::now() - start > limit) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }

  static constexpr std::chrono::seconds kTryTime{20};

  World& world_;
  GpuWork gpu_;
  SideWork work_;
  PeerFlags flags_;
  PeerMemory peers_;
  int unwinding_;  // exceptions on their way when this was made
  std::vector<std::shared_ptr<void>> kept_;  // what others have mapped
  std::vector<std::byte*> window_;           // of every rank
  std::int64_t window_bytes_ = 0;
  std::map<const void*, std::vector<std::byte*>> reached_;
  std::uint32_t operations_ = 0;
};

}  // namespace

std::unique_ptr<Collectives> peer_collectives(World& world, GpuWork gpu) {
  const Place& place = world.place();
  if (place.local_size != place.size) {
    world.throw_agreed("the ranks are on several hosts", ExitCode::kUsage);
  }
  if (place.size > kernels::kMostShardParts) {
    world.throw_agreed(
        concat("there are more than ", kernels::kMostShardParts, " ranks"),
        ExitCode::kUsage);
  }
  return std::make_unique<PeerCollectives>(world, std::move(gpu));
}

}  // namespace osdn::dist
