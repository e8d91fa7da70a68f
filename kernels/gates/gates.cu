// Gates forward and backward. A thread keeps its columns and walks the tokens,
// so the parameters are read once and their gradients summed in registers;
// those go to one row of partials a block, and are then summed in order.

#include <type_traits>

#include "kernels/common/column_sum.cuh"
#include "kernels/common/launch_check.cuh"
#include "kernels/common/vector_io.cuh"
#include "kernels/gates/gates_device.cuh"

namespace osdn::kernels {
namespace {

constexpr int kThreads = 256;
/// Blocks along the tokens: a constant, for the order of the sums.
constexpr std::int64_t kMaxRowBlocks = 512;

/// How C columns lie in blocks: `packs` packs side by side, `rows` tokens at a
/// time, `across` blocks to a row.
struct Layout {
  std::int64_t packs, across, row_blocks;
  int rows;
};

Layout layout_of(std::int64_t columns, std::int64_t tokens, int pack_size) {
  Layout layout;
  layout.packs = columns / pack_size;
  layout.across = (layout.packs + kThreads - 1) / kThreads;
  layout.rows =
      layout.packs < kThreads ? kThreads / static_cast<int>(layout.packs) : 1;
  const std::int64_t blocks = (tokens + layout.rows - 1) / layout.rows;
  layout.row_blocks = blocks < kMaxRowBlocks ? blocks : kMaxRowBlocks;
  return layout;
}

/// A thread's place: its first column and its token within a step.
struct Place {
  std::int64_t column, row_block;
  int row;
  bool active;
};
__device__ __forceinline__ Place place_of(const Layout& layout, int pack_size) {
  const std::int64_t block_column = blockIdx.x % layout.across;
  const int packs =
      layout.packs < kThreads ? static_cast<int>(layout.packs) : kThreads;
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t pack = block_column * kThreads + thread % packs;
  Place place;
  place.row = thread / packs;
  place.column = pack * pack_size;
  place.row_block = blockIdx.x / layout.across;
  place.active = place.row < layout.rows && pack < layout.packs;
  return place;
}

template <int PackSize>
__device__ __forceinline__ void load_columns(const GateShape& shape,
                                             const float* a_log,
                                             const float* bias,
                                             std::int64_t column, bool active,
                                             GateColumn (&columns)[PackSize]) {
#pragma unroll
  for (int j = 0; j < PackSize; ++j) {
    columns[j] = {1.0f, 0.0f};
    if (!active) continue;
    if (a_log != nullptr) {
      columns[j].decay = decay_rate(a_log[(column + j) / shape.head_width]);
    }
    if (bias != nullptr) columns[j].bias = bias[column + j];
  }
}

/// Gradients of z and of A for one element.
struct Slopes {
  float z, a_log;
};
__device__ __forceinline__ Slopes slopes_of(const GateShape& shape,
                                            const GateColumn& column, float x,
                                            float grad) {
  const float z = x + column.bias;
  if (shape.kind == GateKind::kSoftplusDecay) {
    return {-grad * column.decay * sigmoid(z),
            -grad * column.decay * softplus(z)};
  }
  if (shape.kind == GateKind::kBoundedDecay) {
    const float s = sigmoid(column.decay * z);
    const float scaled = grad * shape.lower_bound * s * (1.0f - s);
    // s (1 - s) is 0 where decay * z has overflowed.
    const float at_z = scaled == 0.0f ? 0.0f : scaled * column.decay;
    return {at_z, at_z * z};
  }
  const float s = sigmoid(z);
  return {grad * shape.scale * s * (1.0f - s), 0.0f};
}

template <typename T, int PackSize>
__global__ void __launch_bounds__(kThreads)
    gate_fwd_kernel(const GateFwdParams p, const Layout layout,
                    std::int64_t x_stride) {
  const GateShape& shape = p.shape;
  const std::int64_t columns = shape.heads * shape.head_width;
  const Place place = place_of(layout, PackSize);
  if (!place.active) return;
  GateColumn column[PackSize];
  load_columns(shape, p.a_log, p.bias, place.column, true, column);
  for (std::int64_t t = place.row_block * layout.rows + place.row;
       t < shape.tokens; t += layout.row_blocks * layout.rows) {
    float x[PackSize], y[PackSize];
    load_floats(static_cast<const T*>(p.x) + t * x_stride + place.column, x);
#pragma unroll
    for (int j = 0; j < PackSize; ++j)
      y[j] = gate_value(shape, column[j], x[j]);
    store_floats(p.y + t * columns + place.column, y);
  }
}

template <typename T, int PackSize>
__global__ void __launch_bounds__(kThreads)
    gate_bwd_kernel(const GateBwdParams p, const Layout layout,
                    std::int64_t x_stride, std::int64_t grad_x_stride,
                    float* partial) {
  __shared__ float strands[2 * PackSize][kThreads];
  const GateShape& shape = p.shape;
  const std::int64_t columns = shape.heads * shape.head_width;
  const Place place = place_of(layout, PackSize);
  GateColumn column[PackSize];
  load_columns(shape, p.a_log, p.bias, place.column, place.active, column);
  float grad_bias[PackSize] = {}, grad_a_log[PackSize] = {};
  if (place.active) {
    for (std::int64_t t = place.row_block * layout.rows + place.row;
         t < shape.tokens; t += layout.row_blocks * layout.rows) {
      float x[PackSize], grad[PackSize], grad_x[PackSize];
      load_floats(static_cast<const T*>(p.x) + t * x_stride + place.column, x);
      load_floats(p.grad_y + t * columns + place.column, grad);
#pragma unroll
      for (int j = 0; j < PackSize; ++j) {
        const Slopes slopes = slopes_of(shape, column[j], x[j], grad[j]);
        grad_x[j] = slopes.z;
        grad_bias[j] += slopes.z;
        grad_a_log[j] += slopes.a_log;
      }
      store_floats(static_cast<T*>(p.grad_x) + t * grad_x_stride + place.column,
                   grad_x);
    }
  }
  if (partial == nullptr) return;
#pragma unroll
  for (int j = 0; j < PackSize; ++j) {
    strands[j][threadIdx.x] = grad_bias[j];
    strands[PackSize + j][threadIdx.x] = grad_a_log[j];
  }
  __syncthreads();
  if (!place.active || place.row != 0) return;
  const int side = layout.packs < kThreads ? static_cast<int>(layout.packs) : 0;
  float* row = partial + place.row_block * 2 * columns;
#pragma unroll
  for (int j = 0; j < PackSize; ++j) {
    float bias_sum = 0.0f, a_log_sum = 0.0f;
    for (int r = 0; r < layout.rows; ++r) {
      const int from = r * side + static_cast<int>(threadIdx.x);
      bias_sum += strands[j][from];
      a_log_sum += strands[PackSize + j][from];
    }
    row[place.column + j] = bias_sum;
    row[columns + place.column + j] = a_log_sum;
  }
}

/// Sums [2,C]: bias gradients as they are, those of A over a head's columns.
__global__ void gate_parameters_kernel(const float* sums, float* grad_bias,
                                       float* grad_a_log, std::int64_t columns,
                                       std::int64_t head_width) {
  const std::int64_t column =
      static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (column >= columns) return;
  if (grad_bias != nullptr) grad_bias[column] = sums[column];
  if (grad_a_log != nullptr && column % head_width == 0) {
    float sum = 0.0f;
    for (std::int64_t j = 0; j < head_width; ++j) {
      sum += sums[columns + column + j];
    }
    grad_a_log[column / head_width] = sum;
  }
}

constexpr int kPack = 4;

bool has_parameters(const GateBwdParams& p) {
  return p.grad_bias != nullptr || p.grad_a_log != nullptr;
}

template <typename T>
bool packs_fit(const GateShape& shape, std::int64_t stride, const void* x,
               const void* y) {
  return shape.heads * shape.head_width % kPack == 0 && stride % kPack == 0 &&
         reinterpret_cast<std::uintptr_t>(x) % (kPack * sizeof(T)) == 0 &&
         reinterpret_cast<std::uintptr_t>(y) % 16 == 0;
}

template <typename Run>
void with_pack(bool fits, Run&& run) {
  if (fits) {
    run(std::integral_constant<int, kPack>{});
  } else {
    run(std::integral_constant<int, 1>{});
  }
}

template <typename T>
void launch(const GateFwdParams& p, Stream stream) {
  const std::int64_t columns = p.shape.heads * p.shape.head_width;
  const std::int64_t stride = p.x_stride != 0 ? p.x_stride : columns;
  with_pack(packs_fit<T>(p.shape, stride, p.x, p.y), [&](auto pack_size) {
    constexpr int kPackSize = decltype(pack_size)::value;
    const Layout layout = layout_of(columns, p.shape.tokens, kPackSize);
    gate_fwd_kernel<T, kPackSize>
        <<<grid_size(layout.row_blocks * layout.across, 1), kThreads, 0,
           stream>>>(p, layout, stride);
    check_launch("gate_fwd");
  });
}

template <typename T>
void launch(const GateBwdParams& p, Stream stream) {
  const std::int64_t columns = p.shape.heads * p.shape.head_width;
  const std::int64_t stride = p.x_stride != 0 ? p.x_stride : columns;
  const std::int64_t grad_stride =
      p.grad_x_stride != 0 ? p.grad_x_stride : columns;
  float* sums = has_parameters(p) ? static_cast<float*>(p.workspace) : nullptr;
  float* partial = sums == nullptr ? nullptr : sums + 2 * columns;
  const bool fits = packs_fit<T>(p.shape, stride, p.x, p.grad_y) &&
                    packs_fit<T>(p.shape, grad_stride, p.grad_x, nullptr);
  with_pack(fits, [&](auto pack_size) {
    constexpr int kPackSize = decltype(pack_size)::value;
    const Layout layout = layout_of(columns, p.shape.tokens, kPackSize);
    if (p.shape.tokens > 0) {
      gate_bwd_kernel<T, kPackSize>
          <<<grid_size(layout.row_blocks * layout.across, 1), kThreads, 0,
             stream>>>(p, layout, stride, grad_stride, partial);
      check_launch("gate_bwd");
    }
    if (sums == nullptr) return;
    column_sum("gate_bwd: sum over blocks", partial, layout.row_blocks,
               2 * columns, sums, stream);
    gate_parameters_kernel<<<grid_size(columns, kThreads), kThreads, 0,
                             stream>>>(sums, p.grad_bias, p.grad_a_log, columns,
                                       p.shape.head_width);
    check_launch("gate_bwd: parameters");
  });
}

const char* shape_unsupported(const GateShape& shape, const float* a_log,
                              const float* bias) {
  if (shape.tokens < 0 || shape.heads < 1 || shape.head_width < 1) {
    return "tokens must not be negative, heads and head_width at least 1";
  }
  if (shape.kind == GateKind::kSigmoid) {
    if (a_log != nullptr) return "a sigmoid gate has no a_log";
  } else if (a_log == nullptr || bias == nullptr) {
    return "a decay needs a_log and bias";
  }
  if (shape.kind == GateKind::kBoundedDecay && !(shape.lower_bound < 0.0f)) {
    return "lower_bound must be below 0";
  }
  return nullptr;
}

}  // namespace

std::int64_t gate_bwd_workspace_bytes(const GateBwdParams& p) {
  if (!has_parameters(p)) return 0;
  const std::int64_t columns = p.shape.heads * p.shape.head_width;
  const std::int64_t rows =
      p.shape.tokens < kMaxRowBlocks ? p.shape.tokens : kMaxRowBlocks;
  return (1 + rows) * 2 * columns * 4;
}

const char* gate_fwd_unsupported(const GateFwdParams& p) {
  if (const char* reason = shape_unsupported(p.shape, p.a_log, p.bias)) {
    return reason;
  }
  if (p.x_stride != 0 && p.x_stride < p.shape.heads * p.shape.head_width) {
    return "x_stride must be 0 or at least heads * head_width";
  }
  if (p.shape.tokens > 0 && (p.x == nullptr || p.y == nullptr)) {
    return "x and y must be given";
  }
  return nullptr;
}

const char* gate_bwd_unsupported(const GateBwdParams& p) {
  if (const char* reason = shape_unsupported(p.shape, p.a_log, p.bias)) {
    return reason;
  }
  for (const std::int64_t stride : {p.x_stride, p.grad_x_stride}) {
    if (stride != 0 && stride < p.shape.heads * p.shape.head_width) {
      return "row strides must be 0 or at least heads * head_width";
    }
  }
  if ((p.a_log == nullptr) != (p.grad_a_log == nullptr) ||
      (p.bias == nullptr) != (p.grad_bias == nullptr)) {
    return "grad_a_log and grad_bias must be given exactly when a_log and "
           "bias are";
  }
  if (p.shape.tokens > 0 &&
      (p.x == nullptr || p.grad_y == nullptr || p.grad_x == nullptr)) {
    return "x, grad_y and grad_x must be given";
  }
  if (has_parameters(p) && p.workspace == nullptr) {
    return "workspace must be given";
  }
  return nullptr;
}

void gate_fwd(const GateFwdParams& p, Stream stream) {
  require_supported("gate_fwd", gate_fwd_unsupported(p));
  if (p.shape.tokens == 0) return;
  if (p.shape.element == Element::kBF16) {
    launch<__nv_bfloat16>(p, stream);
  } else {
    launch<float>(p, stream);
  }
}

void gate_bwd(const GateBwdParams& p, Stream stream) {
  require_supported("gate_bwd", gate_bwd_unsupported(p));
  if (p.shape.tokens == 0 && !has_parameters(p)) return;
  if (p.shape.element == Element::kBF16) {
    launch<__nv_bfloat16>(p, stream);
  } else {
    launch<float>(p, stream);
  }
}

}  // namespace osdn::kernels
