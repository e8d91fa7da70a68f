// Global norm and AdamW over a table of tensors: a block takes one chunk of one
// tensor, found by bisection.

#include <cstring>
#include <stdexcept>
#include <string>

#include "kernels/adamw/adamw.cuh"
#include "kernels/common/documents.cuh"
#include "kernels/common/launch_check.cuh"
#include "kernels/common/reduce.cuh"
#include "kernels/common/vector_io.cuh"

namespace osdn::kernels {
namespace {

/// The table in memory: first_chunk [tensors + 1], then the tensors. A chunk is
/// one block's work and never spans two tensors.
constexpr std::int64_t kChunkElements = 16384;

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kPack = 4;
constexpr int kNormThreads = 1024;

/// A chunk's tensor and elements.
struct Chunk {
  AdamWTensor tensor;
  std::int64_t begin;
  int count;
  bool packs_fit;
};

__device__ __forceinline__ bool fits(const void* pointer, unsigned bytes) {
  return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0;
}

__device__ __forceinline__ Chunk chunk_at(const AdamWTable& table,
                                          std::int64_t index) {
  const auto* first_chunk = static_cast<const std::int64_t*>(table.device);
  const auto* tensors =
      reinterpret_cast<const AdamWTensor*>(first_chunk + table.tensors + 1);
  // Chunks are to tensors what tokens are to documents.
  const std::int64_t i = document_of(index, first_chunk, table.tensors);
  Chunk chunk;
  chunk.tensor = tensors[i];
  chunk.begin = (index - first_chunk[i]) * kChunkElements;
  const std::int64_t left = chunk.tensor.n - chunk.begin;
  chunk.count = static_cast<int>(left < kChunkElements ? left : kChunkElements);
  chunk.packs_fit = fits(chunk.tensor.master, 16) && fits(chunk.tensor.m, 16) &&
                    fits(chunk.tensor.v, 16) && fits(chunk.tensor.grad, 16) &&
                    fits(chunk.tensor.copy, 8);
  return chunk;
}

/// Calls with_pack(first element) for whole packs and one(element) for the
/// rest of a chunk, thread by thread.
template <typename WithPack, typename One>
__device__ __forceinline__ void for_each_element(const Chunk& chunk,
                                                 WithPack&& with_pack,
                                                 One&& one) {
  const int thread = static_cast<int>(threadIdx.x);
  const int in_packs = chunk.packs_fit ? chunk.count / kPack * kPack : 0;
#pragma unroll 4
  for (int e = thread * kPack; e < in_packs; e += kThreads * kPack) {
    with_pack(chunk.begin + e);
  }
  for (int e = in_packs + thread; e < chunk.count; e += kThreads) {
    one(chunk.begin + e);
  }
}

template <int N>
__device__ __forceinline__ void load_grad(const AdamWTensor& tensor,
                                          std::int64_t at, float (&to)[N]) {
  if (tensor.grad == nullptr) {
#pragma unroll
    for (int j = 0; j < N; ++j) to[j] = 0.0f;
  } else if (tensor.grad_element == Element::kBF16) {
    load_floats(static_cast<const __nv_bfloat16*>(tensor.grad) + at, to);
  } else {
    load_floats(static_cast<const float*>(tensor.grad) + at, to);
  }
}

__global__ void __launch_bounds__(kThreads)
    squares_kernel(const AdamWTable table, double* partial) {
  __shared__ double scratch[kWarps];
  const Chunk chunk = chunk_at(table, blockIdx.x);
  float sum = 0.0f;
  const auto add = [&](std::int64_t at, auto& grad) {
    load_grad(chunk.tensor, at, grad);
    for (const float g : grad) sum = fmaf(g, g, sum);
  };
  for_each_element(
      chunk,
      [&](std::int64_t at) {
        float grad[kPack];
        add(at, grad);
      },
      [&](std::int64_t at) {
        float grad[1];
        add(at, grad);
      });
  const double total = block_sum<kWarps>(static_cast<double>(sum), scratch);
  if (threadIdx.x == 0) partial[blockIdx.x] = total;
}

__global__ void __launch_bounds__(kNormThreads)
    norm_kernel(const double* partial, std::int64_t chunks, float max_norm,
                float* norm_and_clip) {
  __shared__ double scratch[kNormThreads / 32];
  double sum = 0.0;
#pragma unroll 4
  for (std::int64_t i = threadIdx.x; i < chunks; i += kNormThreads) {
    sum += partial[i];
  }
  sum = block_sum<kNormThreads / 32>(sum, scratch);
  if (threadIdx.x != 0) return;
  const float norm = static_cast<float>(sqrt(sum));
  float clip = 1.0f;
  if (!isfinite(norm)) {
    clip = NAN;
  } else if (max_norm > 0.0f) {
    const float factor = max_norm / (norm + 1e-6f);
    clip = factor < 1.0f ? factor : 1.0f;
  }
  norm_and_clip[0] = norm;
  norm_and_clip[1] = clip;
}

/// What the update needs of a step, the same for all elements.
struct Factors {
  float clip, keep, beta1, beta2, step_size, inverse_root_bias2, eps;
};

template <int N>
__device__ __forceinline__ void update(const AdamWTensor& tensor,
                                       const Factors& f, std::int64_t at) {
  float grad[N], p[N], m[N], v[N];
  load_grad(tensor, at, grad);
  load_floats(tensor.master + at, p);
  load_floats(tensor.m + at, m);
  load_floats(tensor.v + at, v);
#pragma unroll
  for (int j = 0; j < N; ++j) {
    const float g = grad[j] * f.clip;
    m[j] = fmaf(1.0f - f.beta1, g - m[j], m[j]);
    v[j] = fmaf(1.0f - f.beta2, g * g - v[j], v[j]);
    const float denominator = fmaf(sqrtf(v[j]), f.inverse_root_bias2, f.eps);
    p[j] = fmaf(-f.step_size, m[j] / denominator, p[j] * f.keep);
  }
  store_floats(tensor.master + at, p);
  store_floats(tensor.m + at, m);
  store_floats(tensor.v + at, v);
  if (tensor.copy != nullptr) {
    store_floats(static_cast<__nv_bfloat16*>(tensor.copy) + at, p);
  }
}

__global__ void __launch_bounds__(kThreads) adamw_kernel(const AdamWParams p) {
  Factors f;
  f.clip = p.clip == nullptr ? 1.0f : *p.clip;
  if (isnan(f.clip)) return;
  const AdamWStep step = *p.step;
  const Chunk chunk = chunk_at(p.table, blockIdx.x);
  f.keep = 1.0f - step.lr * chunk.tensor.weight_decay;
  f.beta1 = p.beta1;
  f.beta2 = p.beta2;
  f.step_size = step.lr / step.bias1;
  f.inverse_root_bias2 = 1.0f / sqrtf(step.bias2);
  f.eps = p.eps;
  for_each_element(
      chunk, [&](std::int64_t at) { update<kPack>(chunk.tensor, f, at); },
      [&](std::int64_t at) { update<1>(chunk.tensor, f, at); });
}

const char* table_unsupported(const AdamWTable& table) {
  if (table.tensors < 0 || table.chunks < 0 || table.chunks > 0x7fffffff) {
    return "the table must come from adamw_pack_table and have at most "
           "2147483647 chunks";
  }
  if (table.chunks > 0 && table.device == nullptr) {
    return "the table must be copied to the device";
  }
  return nullptr;
}

}  // namespace

std::vector<std::byte> adamw_pack_table(const std::vector<AdamWTensor>& tensors,
                                        AdamWTable& table) {
  std::vector<std::int64_t> first_chunk{0};
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const AdamWTensor& tensor = tensors[i];
    if (tensor.n < 0 ||
        (tensor.n > 0 && (tensor.master == nullptr || tensor.m == nullptr ||
                          tensor.v == nullptr))) {
      throw std::invalid_argument("adamw: tensor " + std::to_string(i) +
                                  " of " + std::to_string(tensors.size()) +
                                  " has " + std::to_string(tensor.n) +
                                  " elements and must have master, m and v");
    }
    first_chunk.push_back(first_chunk.back() +
                          (tensor.n + kChunkElements - 1) / kChunkElements);
  }
  table.tensors = static_cast<std::int64_t>(tensors.size());
  table.chunks = first_chunk.back();
  std::vector<std::byte> bytes(tensors.size() * sizeof(AdamWTensor) +
                               first_chunk.size() * sizeof(std::int64_t));
  std::memcpy(bytes.data(), first_chunk.data(),
              first_chunk.size() * sizeof(std::int64_t));
  if (!tensors.empty()) {
    std::memcpy(bytes.data() + first_chunk.size() * sizeof(std::int64_t),
                tensors.data(), tensors.size() * sizeof(AdamWTensor));
  }
  return bytes;
}

std::int64_t global_norm_workspace_bytes(const GlobalNormParams& p) {
  return p.table.chunks * static_cast<std::int64_t>(sizeof(double));
}

const char* global_norm_unsupported(const GlobalNormParams& p) {
  if (const char* reason = table_unsupported(p.table)) return reason;
  if (!(p.max_norm >= 0.0f)) return "max_norm must not be negative";
  if (p.norm_and_clip == nullptr ||
      (p.table.chunks > 0 && p.workspace == nullptr)) {
    return "norm_and_clip and workspace must be given";
  }
  return nullptr;
}

const char* adamw_unsupported(const AdamWParams& p) {
  if (const char* reason = table_unsupported(p.table)) return reason;
  if (p.step == nullptr) return "step must be given";
  return nullptr;
}

void global_norm(const GlobalNormParams& p, Stream stream) {
  require_supported("global_norm", global_norm_unsupported(p));
  if (p.table.chunks > 0) {
    squares_kernel<<<grid_size(p.table.chunks, 1), kThreads, 0, stream>>>(
        p.table, p.workspace);
    check_launch("global_norm: squares");
  }
  norm_kernel<<<1, kNormThreads, 0, stream>>>(p.workspace, p.table.chunks,
                                              p.max_norm, p.norm_and_clip);
  check_launch("global_norm");
}

void adamw(const AdamWParams& p, Stream stream) {
  require_supported("adamw", adamw_unsupported(p));
  if (p.table.chunks == 0) return;
  adamw_kernel<<<grid_size(p.table.chunks, 1), kThreads, 0, stream>>>(p);
  check_launch("adamw");
}

}  // namespace osdn::kernels
