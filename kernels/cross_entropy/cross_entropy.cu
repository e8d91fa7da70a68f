// Cross-entropy: one block a row. A row that fits is held in registers between
// the sum and the gradient; a longer one is read again. Maximum and sum are
// found in one pass per thread and joined in one reduction.

#include <type_traits>

#include "kernels/common/activation.cuh"
#include "kernels/common/launch_check.cuh"
#include "kernels/common/reduce.cuh"
#include "kernels/common/vector_io.cuh"
#include "kernels/cross_entropy/cross_entropy.cuh"

namespace osdn::kernels {
namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;

/// sum_j exp(x_j) = sum * exp(peak).
struct Mass {
  float peak, sum;
};

/// -inf peaks stand for nothing yet: their factor must not be inf - inf.
__device__ __forceinline__ Mass join(Mass a, Mass b) {
  const float peak = a.peak > b.peak ? a.peak : b.peak;
  const float of_a = a.peak == peak ? 1.0f : exponential(a.peak - peak);
  const float of_b = b.peak == peak ? 1.0f : exponential(b.peak - peak);
  return {peak, fmaf(a.sum, of_a, b.sum * of_b)};
}

/// Joined over the block, the same in every thread.
__device__ __forceinline__ Mass block_mass(Mass mass, Mass (&scratch)[kWarps]) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    const Mass other = {__shfl_xor_sync(kFullWarp, mass.peak, offset),
                        __shfl_xor_sync(kFullWarp, mass.sum, offset)};
    // Both lanes of a pair join in one order, so that they get the same bits.
    mass = (threadIdx.x & static_cast<unsigned>(offset)) == 0
               ? join(mass, other)
               : join(other, mass);
  }
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = mass;
  __syncthreads();
  mass = scratch[0];
#pragma unroll
  for (int w = 1; w < kWarps; ++w) mass = join(mass, scratch[w]);
  return mass;
}

/// The mass of the values seen by one thread.
template <int N>
__device__ __forceinline__ Mass add_values(Mass mass, const float (&x)[N]) {
  float peak = x[0];
#pragma unroll
  for (int j = 1; j < N; ++j) peak = fmaxf(peak, x[j]);
  if (peak > mass.peak) {
    mass.sum *= exponential(mass.peak - peak);
    mass.peak = peak;
  }
#pragma unroll
  for (int j = 0; j < N; ++j) {
    // With only -inf or NaN so far there is no peak to subtract.
    mass.sum += exponential(x[j] - (mass.peak == -INFINITY ? 0.0f : mass.peak));
  }
  return mass;
}

template <int N>
__device__ __forceinline__ void to_gradient(float (&x)[N], std::int64_t first,
                                            std::int64_t label, float log_sum,
                                            float scale, bool valid) {
#pragma unroll
  for (int j = 0; j < N; ++j) {
    float p = exponential(x[j] - log_sum);
    if (first + j == label) p -= 1.0f;
    x[j] = valid ? p * scale : 0.0f;
  }
}

/// What a row contributes besides its mass.
struct RowLabel {
  std::int64_t label;
  bool valid;  ///< has a label
  bool in_range;
};
__device__ __forceinline__ RowLabel row_label(const CrossEntropyParams& p,
                                              std::int64_t row) {
  RowLabel at;
  at.label = p.labels[row];
  at.valid = at.label != kNoLabel;
  at.in_range = at.label >= 0 && at.label < p.vocab;
  return at;
}

/// Held > 0: the row is Held packs a thread. Held = 0: it is read twice.
template <typename T, int PackSize, int Held>
__global__ void __launch_bounds__(kThreads, Held > 8 ? 1 : 2)
    cross_entropy_kernel(const CrossEntropyParams p, std::int64_t stride) {
  __shared__ Mass scratch[kWarps];
  const std::int64_t row = blockIdx.x;
  T* logits = static_cast<T*>(p.logits) + row * stride;
  const RowLabel at = row_label(p, row);
  const float x_label = at.in_range ? to_float(logits[at.label]) : NAN;
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t packs = p.vocab / PackSize;

  Mass mass{-INFINITY, 0.0f};
  Pack<T, PackSize> held[Held > 0 ? Held : 1];
  if constexpr (Held > 0) {
#pragma unroll
    for (int i = 0; i < Held; ++i) {
      const int pack = i * kThreads + thread;
      if (pack < packs) {
        held[i] = load_pack<T, PackSize>(logits + pack * PackSize);
      }
    }
#pragma unroll
    for (int i = 0; i < Held; ++i) {
      if (i * kThreads + thread < packs) {
        float x[PackSize];
        unpack(held[i], x);
        mass = add_values(mass, x);
      }
    }
  } else {
    for (std::int64_t pack = thread; pack < packs; pack += kThreads) {
      float x[PackSize];
      load_floats(logits + pack * PackSize, x);
      mass = add_values(mass, x);
    }
  }
  mass = block_mass(mass, scratch);
  float log_sum = mass.peak + logf(mass.sum);
  if (!at.in_range) log_sum = NAN;
  if (thread == 0) p.loss[row] = at.valid ? log_sum - x_label : 0.0f;
  if (!p.write_gradient) return;

  const float scale =
      p.scale * (p.scale_device == nullptr ? 1.0f : *p.scale_device);
  if constexpr (Held > 0) {
#pragma unroll
    for (int i = 0; i < Held; ++i) {
      const int pack = i * kThreads + thread;
      if (pack < packs) {
        keep_packed(held[i]);
        float x[PackSize];
        unpack(held[i], x);
        to_gradient(x, static_cast<std::int64_t>(pack) * PackSize, at.label,
                    log_sum, scale, at.valid);
        store_floats(logits + pack * PackSize, x);
      }
    }
  } else {
    for (std::int64_t pack = thread; pack < packs; pack += kThreads) {
      float x[PackSize];
      load_floats(logits + pack * PackSize, x);
      to_gradient(x, pack * PackSize, at.label, log_sum, scale, at.valid);
      store_floats(logits + pack * PackSize, x);
    }
  }
}

/// One block, each thread its rows in order, then the threads in order.
__global__ void __launch_bounds__(1024)
    loss_sum_kernel(const float* loss, const std::int64_t* labels,
                    std::int64_t rows, double* loss_sum,
                    std::int64_t* label_count) {
  __shared__ double scratch[32];
  double sum = 0.0, count = 0.0;
  for (std::int64_t row = threadIdx.x; row < rows; row += 1024) {
    if (labels[row] == kNoLabel) continue;
    sum += static_cast<double>(loss[row]);
    count += 1.0;
  }
  sum = block_sum<32>(sum, scratch);
  count = block_sum<32>(count, scratch);
  if (threadIdx.x == 0) {
    if (loss_sum != nullptr) *loss_sum += sum;
    if (label_count != nullptr) {
      *label_count += static_cast<std::int64_t>(count);
    }
  }
}

template <typename T>
void launch(const CrossEntropyParams& p, Stream stream) {
  constexpr int kPack = kPackOf<T>;
  const std::int64_t stride = p.logits_stride != 0 ? p.logits_stride : p.vocab;
  const bool packs_fit = p.vocab % kPack == 0 && stride % kPack == 0 &&
                         is_aligned(static_cast<const char*>(p.logits), 16);
  const auto run = [&](auto pack_size, auto held) {
    cross_entropy_kernel<T, decltype(pack_size)::value, decltype(held)::value>
        <<<grid_size(p.rows, 1), kThreads, 0, stream>>>(p, stride);
    check_launch("cross_entropy");
  };
  const std::integral_constant<int, kPack> whole;
  const std::int64_t packs = p.vocab / kPack;
  if (!packs_fit) {
    run(std::integral_constant<int, 1>{}, std::integral_constant<int, 0>{});
  } else if (packs <= 8 * kThreads) {
    run(whole, std::integral_constant<int, 8>{});
  } else if (packs <= 16 * kThreads) {
    run(whole, std::integral_constant<int, 16>{});
  } else {
    run(whole, std::integral_constant<int, 0>{});
  }
}

}  // namespace

const char* cross_entropy_unsupported(const CrossEntropyParams& p) {
  if (p.rows < 0 || p.rows > 0x7fffffff || p.vocab < 1) {
    return "rows must be 0 to 2147483647, vocab at least 1";
  }
  if (p.logits_stride != 0 && p.logits_stride < p.vocab) {
    return "logits_stride must be 0 or at least vocab";
  }
  if (p.rows > 0 &&
      (p.logits == nullptr || p.labels == nullptr || p.loss == nullptr)) {
    return "logits, labels and loss must be given";
  }
  return nullptr;
}

void cross_entropy(const CrossEntropyParams& p, Stream stream) {
  require_supported("cross_entropy", cross_entropy_unsupported(p));
  if (p.rows == 0) return;
  if (p.element == Element::kBF16) {
    launch<__nv_bfloat16>(p, stream);
  } else {
    launch<float>(p, stream);
  }
  if (p.loss_sum != nullptr || p.label_count != nullptr) {
    loss_sum_kernel<<<1, 1024, 0, stream>>>(p.loss, p.labels, p.rows,
                                            p.loss_sum, p.label_count);
    check_launch("cross_entropy: sum");
  }
}

}  // namespace osdn::kernels
