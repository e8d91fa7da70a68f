// SwiGLU forward and backward: pointwise, 16 bytes an access.

#include <initializer_list>
#include <type_traits>

#include "kernels/common/activation.cuh"
#include "kernels/common/launch_check.cuh"
#include "kernels/common/vector_io.cuh"
#include "kernels/swiglu/swiglu.cuh"

namespace osdn::kernels {
namespace {

constexpr int kThreads = 256;

/// Row and first column of a thread's pack. Division in 32 bits where the
/// index fits, which is cheaper by far.
struct PackPlace {
  std::int64_t row, column;
};
__device__ __forceinline__ PackPlace place_of(std::int64_t index,
                                              std::int64_t packs_a_row,
                                              int pack_size) {
  if (index <= 0xffffffff) {
    const unsigned i = static_cast<unsigned>(index);
    const unsigned n = static_cast<unsigned>(packs_a_row);
    return {i / n, static_cast<std::int64_t>(i % n) * pack_size};
  }
  return {index / packs_a_row, index % packs_a_row * pack_size};
}

template <typename T, int PackSize>
__global__ void __launch_bounds__(kThreads)
    swiglu_fwd_kernel(const SwigluFwdParams p) {
  const std::int64_t packs = p.width / PackSize;
  const std::int64_t index =
      static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (index >= p.rows * packs) return;
  const PackPlace at = place_of(index, packs, PackSize);
  float gate[PackSize], up[PackSize], y[PackSize];
  load_floats(
      static_cast<const T*>(p.gate) + at.row * p.gate_stride + at.column, gate);
  load_floats(static_cast<const T*>(p.up) + at.row * p.up_stride + at.column,
              up);
#pragma unroll
  for (int j = 0; j < PackSize; ++j) y[j] = silu(gate[j]) * up[j];
  store_floats(static_cast<T*>(p.y) + at.row * p.y_stride + at.column, y);
}

template <typename T, int PackSize>
__global__ void __launch_bounds__(kThreads)
    swiglu_bwd_kernel(const SwigluBwdParams p) {
  const std::int64_t packs = p.width / PackSize;
  const std::int64_t index =
      static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (index >= p.rows * packs) return;
  const PackPlace at = place_of(index, packs, PackSize);
  float gate[PackSize], up[PackSize], grad[PackSize], grad_gate[PackSize],
      grad_up[PackSize], y[PackSize];
  load_floats(
      static_cast<const T*>(p.gate) + at.row * p.gate_stride + at.column, gate);
  load_floats(static_cast<const T*>(p.up) + at.row * p.up_stride + at.column,
              up);
  load_floats(
      static_cast<const T*>(p.grad_y) + at.row * p.grad_y_stride + at.column,
      grad);
#pragma unroll
  for (int j = 0; j < PackSize; ++j) {
    const float s = sigmoid(gate[j]);
    const float activated = gate[j] * s;
    y[j] = activated * up[j];
    grad_up[j] = grad[j] * activated;
    grad_gate[j] = grad[j] * up[j] * silu_slope(gate[j], s);
  }
  store_floats(
      static_cast<T*>(p.grad_gate) + at.row * p.grad_gate_stride + at.column,
      grad_gate);
  store_floats(
      static_cast<T*>(p.grad_up) + at.row * p.grad_up_stride + at.column,
      grad_up);
  if (p.y != nullptr) {
    store_floats(static_cast<T*>(p.y) + at.row * p.y_stride + at.column, y);
  }
}

/// Calls run(type, PackSize) with the widest pack that all rows allow.
template <typename T, typename Run>
void with_pack(std::int64_t width, std::initializer_list<const void*> pointers,
               std::initializer_list<std::int64_t> strides, Run&& run) {
  bool fits = width % kPackOf<T> == 0;
  for (const void* pointer : pointers) {
    fits = fits && reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0;
  }
  for (const std::int64_t stride : strides) {
    fits = fits && stride % kPackOf<T> == 0;
  }
  if (fits) {
    run(std::integral_constant<int, kPackOf<T>>{});
  } else {
    run(std::integral_constant<int, 1>{});
  }
}

void fill_stride(std::int64_t& stride, std::int64_t width) {
  if (stride == 0) stride = width;
}

bool strides_fit(std::int64_t width,
                 std::initializer_list<std::int64_t> strides) {
  for (const std::int64_t stride : strides) {
    if (stride != 0 && stride < width) return false;
  }
  return true;
}

template <typename T>
void launch(const SwigluFwdParams& p, Stream stream) {
  with_pack<T>(p.width, {p.gate, p.up, p.y},
               {p.gate_stride, p.up_stride, p.y_stride}, [&](auto pack_size) {
                 constexpr int kPackSize = decltype(pack_size)::value;
                 swiglu_fwd_kernel<T, kPackSize>
                     <<<grid_size(p.rows * (p.width / kPackSize), kThreads),
                        kThreads, 0, stream>>>(p);
                 check_launch("swiglu_fwd");
               });
}

template <typename T>
void launch(const SwigluBwdParams& p, Stream stream) {
  with_pack<T>(p.width, {p.gate, p.up, p.grad_y, p.grad_gate, p.grad_up, p.y},
               {p.gate_stride, p.up_stride, p.grad_y_stride, p.grad_gate_stride,
                p.grad_up_stride, p.y_stride},
               [&](auto pack_size) {
                 constexpr int kPackSize = decltype(pack_size)::value;
                 swiglu_bwd_kernel<T, kPackSize>
                     <<<grid_size(p.rows * (p.width / kPackSize), kThreads),
                        kThreads, 0, stream>>>(p);
                 check_launch("swiglu_bwd");
               });
}

}  // namespace

const char* swiglu_fwd_unsupported(const SwigluFwdParams& p) {
  if (p.rows < 0 || p.width < 1) {
    return "rows must not be negative, width at least 1";
  }
  if (!strides_fit(p.width, {p.gate_stride, p.up_stride, p.y_stride})) {
    return "row strides must be 0 or at least width";
  }
  if (p.rows > 0 && (p.gate == nullptr || p.up == nullptr || p.y == nullptr)) {
    return "gate, up and y must be given";
  }
  return nullptr;
}

const char* swiglu_bwd_unsupported(const SwigluBwdParams& p) {
  if (p.rows < 0 || p.width < 1) {
    return "rows must not be negative, width at least 1";
  }
  if (!strides_fit(p.width,
                   {p.gate_stride, p.up_stride, p.grad_y_stride,
                    p.grad_gate_stride, p.grad_up_stride, p.y_stride})) {
    return "row strides must be 0 or at least width";
  }
  if (p.rows > 0 &&
      (p.gate == nullptr || p.up == nullptr || p.grad_y == nullptr ||
       p.grad_gate == nullptr || p.grad_up == nullptr)) {
    return "gate, up, grad_y, grad_gate and grad_up must be given";
  }
  return nullptr;
}

void swiglu_fwd(const SwigluFwdParams& params, Stream stream) {
  require_supported("swiglu_fwd", swiglu_fwd_unsupported(params));
  if (params.rows == 0) return;
  SwigluFwdParams p = params;
  fill_stride(p.gate_stride, p.width);
  fill_stride(p.up_stride, p.width);
  fill_stride(p.y_stride, p.width);
  if (p.element == Element::kBF16) {
    launch<__nv_bfloat16>(p, stream);
  } else {
    launch<float>(p, stream);
  }
}

void swiglu_bwd(const SwigluBwdParams& params, Stream stream) {
  require_supported("swiglu_bwd", swiglu_bwd_unsupported(params));
  if (params.rows == 0) return;
  SwigluBwdParams p = params;
  fill_stride(p.gate_stride, p.width);
  fill_stride(p.up_stride, p.width);
  fill_stride(p.grad_y_stride, p.width);
  fill_stride(p.grad_gate_stride, p.width);
  fill_stride(p.grad_up_stride, p.width);
  fill_stride(p.y_stride, p.width);
  if (p.element == Element::kBF16) {
    launch<__nv_bfloat16>(p, stream);
  } else {
    launch<float>(p, stream);
  }
}

}  // namespace osdn::kernels
