// Pointwise sum of up to 16 parts, 16 bytes an access.

#include "kernels/common/launch_check.cuh"
#include "kernels/common/vector_io.cuh"
#include "kernels/shard_sum/shard_sum.cuh"

namespace osdn::kernels {
namespace {

constexpr int kThreads = 512;
// Runs beside the backward's matrix products: few blocks that go on are placed
// once, many short ones would queue for a place again and again.
constexpr std::int64_t kMostBlocks = 264;
// Accesses of a thread that are on their way at once, for each part.
constexpr int kAtOnce = 4;

template <typename T>
__global__ void __launch_bounds__(kThreads)
    shard_sum_kernel(const ShardSumParams p) {
  constexpr int kPack = kPackOf<T>;
  const std::int64_t packs = p.count / kPack;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  const std::int64_t first =
      static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  for (std::int64_t begin = first; begin < packs; begin += stride * kAtOnce) {
    float sum[kAtOnce][kPack];
    for (int part = 0; part < p.parts; ++part) {
      const T* from = static_cast<const T*>(p.part[part]);
      Pack<T, kPack> loaded[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const std::int64_t pack = begin + i * stride;
        if (pack < packs) loaded[i] = load_pack<T, kPack>(from + pack * kPack);
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        float values[kPack];
        unpack<kPack, T>(loaded[i], values);
#pragma unroll
        for (int j = 0; j < kPack; ++j) {
          sum[i][j] = part == 0 ? values[j] : sum[i][j] + values[j];
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const std::int64_t pack = begin + i * stride;
      if (pack < packs) {
        store_floats<kPack>(static_cast<T*>(p.sum) + pack * kPack, sum[i]);
      }
    }
  }
}

template <typename T>
void launch(const ShardSumParams& p, Stream stream) {
  shard_sum_kernel<T>
      <<<grid_size(p.count / kPackOf<T>, kThreads * kAtOnce, kMostBlocks),
         kThreads, 0, stream>>>(p);
  check_launch("shard_sum");
}

}  // namespace

const char* shard_sum_unsupported(const ShardSumParams& p) {
  if (p.count < 0 || p.count % 8 != 0) {
    return "count must be a multiple of 8 and not negative";
  }
  static_assert(kMostShardParts == 16);
  if (p.parts < 1 || p.parts > kMostShardParts) {
    return "there must be 1 to 16 parts";
  }
  if (p.count == 0) return nullptr;
  for (int part = 0; part < p.parts; ++part) {
    if (p.part[part] == nullptr || !is_aligned(p.part[part], 16)) {
      return "every part must be given, aligned to 16 bytes";
    }
  }
  if (p.sum == nullptr || !is_aligned(p.sum, 16)) {
    return "sum must be given, aligned to 16 bytes";
  }
  return nullptr;
}

void shard_sum(const ShardSumParams& params, Stream stream) {
  require_supported("shard_sum", shard_sum_unsupported(params));
  if (params.count == 0) return;
  if (params.element == Element::kBF16) {
    launch<__nv_bfloat16>(params, stream);
  } else {
    launch<float>(params, stream);
  }
}

}  // namespace osdn::kernels
