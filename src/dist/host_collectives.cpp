#include <algorithm>
#include <bit>
#include <map>
#include <utility>
#include <vector>

#include "osdn/core/error.h"
#include "osdn/dist/collectives.h"

namespace osdn::dist {

namespace {

// bfloat16 is the upper half of a float.
float from_bf16(std::uint16_t value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}
std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return 0x7fc0;  // NaN
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >>
                                    16);
}

// into = sum of the parts, in rank order.
template <typename T>
void sum_parts(const std::byte* parts, int ranks, std::int64_t count,
               void* into) {
  T* out = static_cast<T*>(into);
  std::copy_n(reinterpret_cast<const T*>(parts), count, out);
  for (int rank = 1; rank < ranks; ++rank) {
    const T* part = reinterpret_cast<const T*>(parts) + rank * count;
    for (std::int64_t i = 0; i < count; ++i) out[i] += part[i];
  }
}

void sum_bf16_parts(const std::byte* parts, int ranks, std::int64_t count,
                    void* into) {
  const auto* in = reinterpret_cast<const std::uint16_t*>(parts);
  auto* out = static_cast<std::uint16_t*>(into);
  for (std::int64_t i = 0; i < count; ++i) {
    float sum = from_bf16(in[i]);
    for (int rank = 1; rank < ranks; ++rank) {
      sum += from_bf16(in[rank * count + i]);
    }
    out[i] = to_bf16(sum);
  }
}

class HostCollectives final : public Collectives {
 public:
  explicit HostCollectives(World& world) : world_(world) {}

  std::string name() const override { return "mpi"; }
  Ticket sum(const BucketMemory& bucket) override {
    tickets_.erase(sum_to_shards(bucket));  // the copy comes behind it
    return gather_shards(bucket);
  }

  Ticket sum_to_shards(const BucketMemory& bucket) override {
    Transport& transport = *world_.transport();
    const std::int64_t bytes = bucket.shard_bytes();
    const Place& place = world_.place();
    auto parts = std::make_shared<std::vector<std::byte>>(
        static_cast<std::size_t>(bytes * place.size));
    transport.exchange(bucket.what, static_cast<std::byte*>(bucket.data),
                       parts->data(), bytes);
    return add(transport.then(
        bucket.what,
        [parts, data = bucket.shard_of(place.rank), ranks = place.size,
         count = bucket.shard, dtype = bucket.dtype] {
          switch (dtype) {
            case DType::kF32:
              return sum_parts<float>(parts->data(), ranks, count, data);
            case DType::kF64:
              return sum_parts<double>(parts->data(), ranks, count, data);
            case DType::kBF16:
              return sum_bf16_parts(parts->data(), ranks, count, data);
            default:
              throw Error("gradients are summed in F64, F32 or BF16");
          }
        }));
  }

  Ticket gather_shards(const BucketMemory& bucket) override {
    return add(world_.transport()->all_gather(
        bucket.what, static_cast<std::byte*>(bucket.data),
        bucket.shard_bytes()));
  }

  void wait(Ticket ticket) override {
    const Transport::Ticket pending = tickets_.at(ticket);
    tickets_.erase(ticket);
    world_.wait(*pending);
  }

 private:
  Ticket add(Transport::Ticket pending) {
    tickets_[next_] = std::move(pending);
    return next_++;
  }

  World& world_;
  std::map<Ticket, Transport::Ticket> tickets_;
  Ticket next_ = 0;
};

}  // namespace

std::unique_ptr<Collectives> host_collectives(World& world) {
  return std::make_unique<HostCollectives>(world);
}

}  // namespace osdn::dist
