// From cu_seqlens to the list of chunks, on the device.

#include "kernels/common/device.cuh"
#include "kernels/common/launch.cuh"
#include "kernels/delta_rule/layout.h"

namespace osdn::kernels::delta_rule {
namespace {

constexpr int kThreads = 1024;

/// One block: running sum of every document's number of chunks.
__global__ void __launch_bounds__(kThreads) count_chunks(const Args args) {
  auto* sums = reinterpret_cast<std::int32_t*>(dynamic_shared());
  const int thread = static_cast<int>(threadIdx.x);
  std::int32_t carry = 0;
  for (std::int64_t base = 0; base < args.N; base += kThreads) {
    const std::int64_t document = base + thread;
    std::int32_t count = 0;
    if (document < args.N) {
      const std::int64_t length =
          args.cu_seqlens[document + 1] - args.cu_seqlens[document];
      count = static_cast<std::int32_t>((length + kChunk - 1) / kChunk);
    }
    sums[thread] = count;
    __syncthreads();
    for (int step = 1; step < kThreads; step *= 2) {
      const std::int32_t before = thread >= step ? sums[thread - step] : 0;
      __syncthreads();
      sums[thread] += before;
      __syncthreads();
    }
    if (document < args.N) {
      args.first_chunk[document] = carry + sums[thread] - count;
    }
    carry += sums[kThreads - 1];
    __syncthreads();
  }
  if (thread == 0) args.first_chunk[args.N] = carry;
}

/// One thread a chunk: finds its document by bisection.
__global__ void __launch_bounds__(128) list_chunks(const Args args) {
  const std::int64_t chunk =
      static_cast<std::int64_t>(blockIdx.x) * 128 + threadIdx.x;
  if (chunk >= args.max_chunks) return;
  ChunkInfo info{0, 0, 0};
  if (chunk < args.first_chunk[args.N]) {
    std::int64_t low = 0, high = args.N;  // first_chunk[low] <= chunk < [high]
    while (high - low > 1) {
      const std::int64_t middle = (low + high) / 2;
      (args.first_chunk[middle] <= chunk ? low : high) = middle;
    }
    info.document = static_cast<std::int32_t>(low);
    info.first =
        args.cu_seqlens[low] + (chunk - args.first_chunk[low]) * kChunk;
    const std::int64_t left = args.cu_seqlens[low + 1] - info.first;
    info.rows = static_cast<std::int32_t>(left < kChunk ? left : kChunk);
  }
  args.chunks[chunk] = info;
}

}  // namespace

void launch_setup(const Args& args, Stream stream) {
  launch("delta_rule count_chunks", count_chunks, 1, kThreads,
         kThreads * sizeof(std::int32_t), stream, args);
  launch("delta_rule list_chunks", list_chunks, (args.max_chunks + 127) / 128,
         128, 0, stream, args);
}

}  // namespace osdn::kernels::delta_rule
