// A block takes one chunk of one tensor, found by bisection.

#include "kernels/common/launch_check.cuh"
#include "kernels/common/vector_io.cuh"
#include "kernels/pack/pack.cuh"

namespace osdn::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kPack = 8;
constexpr int kPacksAThread = 4;
constexpr std::int64_t kChunk = kThreads * kPack * kPacksAThread;

/// Where the blocks of each tensor begin.
struct Chunks {
  std::int64_t first[kMostPacked + 1] = {};
};
static_assert(sizeof(PackParams) + sizeof(Chunks) <= 4096);

template <typename From, typename To>
__global__ void __launch_bounds__(kThreads)
    pack_kernel(const PackParams p, const Chunks chunks) {
  int low = 0;
  int high = p.tensors - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (chunks.first[middle] <= blockIdx.x) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  const std::int64_t chunk = blockIdx.x - chunks.first[low];
  const std::int64_t end = min(p.count[low], (chunk + 1) * kChunk);
  const From* const from = static_cast<const From*>(p.source[low]);
  To* const to = static_cast<To*>(p.flat) + p.begin[low];
  const bool packs_fit = reinterpret_cast<std::uintptr_t>(from) % 16 == 0 &&
                         reinterpret_cast<std::uintptr_t>(to) % 16 == 0;
#pragma unroll
  for (int i = 0; i < kPacksAThread; ++i) {
    const std::int64_t at =
        chunk * kChunk + (i * kThreads + static_cast<int>(threadIdx.x)) * kPack;
    if (packs_fit && at + kPack <= end) {
      float values[kPack] = {};
      if (from != nullptr) load_floats(from + at, values);
      store_floats(to + at, values);
      continue;
    }
    for (std::int64_t j = at; j < end && j < at + kPack; ++j) {
      to[j] = from_float<To>(from == nullptr ? 0.0f : to_float(from[j]));
    }
  }
}

template <typename From, typename To>
void launch(const PackParams& p, Stream stream) {
  Chunks chunks;
  for (int i = 0; i < p.tensors; ++i) {
    chunks.first[i + 1] = chunks.first[i] + (p.count[i] + kChunk - 1) / kChunk;
  }
  const std::int64_t blocks = chunks.first[p.tensors];
  if (blocks == 0) return;
  pack_kernel<From, To>
      <<<grid_size(blocks, 1), kThreads, 0, stream>>>(p, chunks);
  check_launch("pack");
}

template <typename From>
void launch_from(const PackParams& p, Stream stream) {
  if (p.to == Element::kBF16) {
    launch<From, __nv_bfloat16>(p, stream);
  } else {
    launch<From, float>(p, stream);
  }
}

}  // namespace

const char* pack_unsupported(const PackParams& p) {
  static_assert(kMostPacked == 96);
  if (p.tensors < 0 || p.tensors > kMostPacked) {
    return "there must be 0 to 96 tensors";
  }
  std::int64_t chunks = 0;
  for (int i = 0; i < p.tensors; ++i) {
    if (p.count[i] < 0 || p.begin[i] < 0) {
      return "counts and places must not be negative";
    }
    chunks += (p.count[i] + kChunk - 1) / kChunk;
  }
  if (chunks > 0x7fffffff) return "there are more elements than a grid takes";
  if (chunks > 0 && p.flat == nullptr) return "flat must be given";
  return nullptr;
}

void pack(const PackParams& params, Stream stream) {
  require_supported("pack", pack_unsupported(params));
  if (params.from == Element::kBF16) {
    launch_from<__nv_bfloat16>(params, stream);
  } else {
    launch_from<float>(params, stream);
  }
}

}  // namespace osdn::kernels
