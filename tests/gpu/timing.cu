#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <vector>

#include "gpu/device_memory.h"
#include "gpu/timing.h"

namespace osdn::test {
namespace {

/// Mixes an index into 32 well-spread bits.
__device__ std::uint32_t mix(std::uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdull;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ull;
  x ^= x >> 33;
  return static_cast<std::uint32_t>(x);
}
__device__ float uniform(std::uint64_t index, unsigned seed) {
  return (static_cast<float>(
              mix((static_cast<std::uint64_t>(seed) << 40) + index)) +
          0.5f) *
         2.3283064e-10f;
}

__global__ void normal_kernel(__nv_bfloat16* to, std::int64_t count,
                              unsigned seed) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i =
           static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < count; i += step) {
    const float radius =
        sqrtf(-2.f * logf(fminf(uniform(2 * i, seed), 0.9999999f)));
    to[i] =
        __float2bfloat16_rn(radius * cospif(2.f * uniform(2 * i + 1, seed)));
  }
}

__global__ void uniform_kernel(float* to, std::int64_t count, float low,
                               float high, unsigned seed) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i =
           static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < count; i += step) {
    to[i] = low + (high - low) * uniform(i, seed);
  }
}

}  // namespace

double median_ms(const std::function<void()>& call, const char* name) {
  constexpr int kWarmUp = 3, kRuns = 21;
  cudaEvent_t start, stop;
  require(cudaEventCreate(&start), name);
  require(cudaEventCreate(&stop), name);
  std::vector<float> times;
  for (int i = 0; i < kWarmUp + kRuns; ++i) {
    require(cudaEventRecord(start), name);
    call();
    require(cudaEventRecord(stop), name);
    require(cudaEventSynchronize(stop), name);
    float ms = 0;
    require(cudaEventElapsedTime(&ms, start, stop), name);
    if (i >= kWarmUp) times.push_back(ms);
  }
  cudaEventDestroy(start);
  cudaEventDestroy(stop);
  std::sort(times.begin(), times.end());
  return static_cast<double>(times[times.size() / 2]);
}

double copy_rate() {
  constexpr std::size_t kBytes = std::size_t{4} << 30;
  DeviceBuffer from(kBytes), to(kBytes);
  fill_normal_bf16(from.as<void>(), kBytes / 2, 99);
  const double ms = median_ms(
      [&] {
        require(cudaMemcpyAsync(to.as<void>(), from.as<void>(), kBytes,
                                cudaMemcpyDeviceToDevice),
                "copy");
      },
      "copy");
  return 2e3 * static_cast<double>(kBytes) / ms;
}

void fill_normal_bf16(void* to, std::int64_t count, unsigned seed) {
  normal_kernel<<<1024, 256>>>(static_cast<__nv_bfloat16*>(to), count, seed);
  require(cudaGetLastError(), "normal_kernel");
}

void fill_uniform(float* to, std::int64_t count, float low, float high,
                  unsigned seed) {
  uniform_kernel<<<1024, 256>>>(to, count, low, high, seed);
  require(cudaGetLastError(), "uniform_kernel");
}

}  // namespace osdn::test
