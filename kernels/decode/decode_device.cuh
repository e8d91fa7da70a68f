#pragma once
// The decoding step's kernel: one block a (sequence, value head).
//
// A warp holds 32 rows by 32 columns of S in registers, eight 16-byte accesses
// a lane, each of them a full line per row. `parts` warps stand below each
// other and cover K; as many such columns of warps as fit a block stand side by
// side, and the block goes over V in passes. The columns of S are independent
// of each other once k, q, kt and beta are known, so that S is read and written
// once: with a = Sbar^T k, b = Sbar^T q and u = beta (v - a), the outputs are
// S = Sbar + kt u^T and S^T q = b + (kt . q) u.

#include <cstdint>

#include "kernels/common/activation.cuh"
#include "kernels/common/device.cuh"
#include "kernels/decode/decode.cuh"
#include "kernels/gates/gates_device.cuh"
#include "kernels/preconditioner/preconditioner_step.cuh"

namespace osdn::kernels::decoding {

inline constexpr int kMaxWarps = 16;
inline constexpr int kTile = 32;      ///< rows and columns of a warp's tile
inline constexpr int kRowsALane = 8;  ///< of it, every fourth
inline constexpr int kMaxWidth = 256;
inline constexpr int kMaxParts = kMaxWidth / kTile;
inline constexpr int kMaxTaps = 8;
inline constexpr float kNormEpsilon = 1e-6f;

/// How a block covers [K,V].
struct Layout {
  int parts;     ///< tiles below each other
  int slabs;     ///< tiles side by side
  int together;  ///< slabs of one pass
  __host__ __device__ explicit Layout(const DecodeShape& shape)
      : parts(static_cast<int>((shape.key_width + kTile - 1) / kTile)),
        slabs(static_cast<int>((shape.value_width + kTile - 1) / kTile)),
        together(slabs < kMaxWarps / parts ? slabs : kMaxWarps / parts) {}
  /// At least as many as K and as V.
  __host__ __device__ int threads() const { return 32 * parts * together; }
};

/// Rows and columns past K and V are zeros.
struct Shared {
  float q[kMaxWidth];  ///< raw, then normalised and times K^{-1/2}
  float k[kMaxWidth];  ///< raw, then normalised
  float write[kMaxWidth];
  float decay[kMaxWidth];  ///< exp(g)
  float v[kMaxWidth];
  float o[kMaxWidth];
  alignas(16) float k_sums[kMaxWarps][kTile];  ///< of a warp's rows
  alignas(16) float q_sums[kMaxWarps][kTile];
  float beta;
  float overlap;  ///< kt . q
};

/// A block's sequence and heads.
struct Place {
  std::int64_t n, hv, h;
  std::int64_t row;  ///< n HV + hv
  bool first;        ///< value head of its key head
  __device__ explicit Place(const DecodeShape& shape) {
    const std::int64_t group = shape.value_heads / shape.key_heads;
    row = blockIdx.x;
    n = row / shape.value_heads;
    hv = row % shape.value_heads;
    h = hv / group;
    first = hv % group == 0;
  }
};

// ---- what is computed once a block
// ------------------------------------------

/// silu of one channel's convolution; with `keep`, its inputs move on by one.
template <typename T>
__device__ __forceinline__ float convolved(const DecodeConv& conv,
                                           std::int64_t n, std::int64_t channel,
                                           std::int64_t channels, int width,
                                           bool keep) {
  const std::int64_t at = n * (width - 1) * channels + channel;
  const T now = static_cast<const T*>(conv.x)[n * channels + channel];
  const T* past = static_cast<const T*>(conv.past) + at;
  const float* weight = conv.weight + channel * width;
  // All loads before the first store, which may go to the same memory.
  T input[kMaxTaps - 1];
  float tap[kMaxTaps - 1];
#pragma unroll
  for (int j = 0; j < kMaxTaps - 1; ++j) {
    if (j >= width - 1) continue;
    input[j] = past[j * channels];
    tap[j] = weight[j];
  }
  float sum = 0;
#pragma unroll
  for (int j = 0; j < kMaxTaps - 1; ++j) {
    if (j < width - 1) sum = fmaf(tap[j], widen(input[j]), sum);
  }
  sum = fmaf(weight[width - 1], widen(now), sum);
  if (keep) {
    T* out = static_cast<T*>(conv.past_out) + at;
#pragma unroll
    for (int j = 1; j < kMaxTaps - 1; ++j) {
      if (j < width - 1) out[(j - 1) * channels] = input[j];
    }
    out[(width - 2) * channels] = now;
  }
  return silu(sum);
}

/// Raw q and k and v of the block's heads.
template <typename T>
__device__ __forceinline__ void convolve(const DecodeShape& shape,
                                         const DecodeParams& p,
                                         const Place& place,
                                         const Layout& layout, Shared& shared) {
  const int K = static_cast<int>(shape.key_width);
  const int V = static_cast<int>(shape.value_width);
  const int key_rows = layout.parts * kTile, columns = layout.slabs * kTile;
  for (int i = static_cast<int>(threadIdx.x); i < 2 * key_rows + columns;
       i += layout.threads()) {
    if (i < 2 * key_rows) {
      const bool is_q = i < key_rows;
      const int c = is_q ? i : i - key_rows;
      const float x = c < K ? convolved<T>(is_q ? p.q : p.k, place.n,
                                           place.h * K + c, shape.key_heads * K,
                                           shape.conv_width, place.first)
                            : 0.0f;
      (is_q ? shared.q : shared.k)[c] = x;
    } else {
      const int j = i - 2 * key_rows;
      shared.v[j] =
          j < V ? convolved<T>(p.v, place.n, place.hv * V + j,
                               shape.value_heads * V, shape.conv_width, true)
                : 0.0f;
    }
  }
}

/// g of channel c, or of the head.
template <typename T>
__device__ __forceinline__ float log_decay(const DecodeGates& gates,
                                           const Place& place, int K, int c) {
  GateShape shape;
  shape.kind = gates.decay == DecodeDecay::kSoftplus ? GateKind::kSoftplusDecay
                                                     : GateKind::kBoundedDecay;
  shape.lower_bound = gates.lower_bound;
  const std::int64_t at =
      gates.decay_per_channel ? place.row * K + c : place.row;
  const std::int64_t column =
      gates.decay_per_channel ? place.hv * K + c : place.hv;
  return gate_value(
      shape, {decay_rate(gates.a_log[place.hv]), gates.decay_bias[column]},
      widen(static_cast<const T*>(gates.decay_logits)[at]));
}

template <typename T>
__device__ __forceinline__ float decay_of(const DecodeGates& gates,
                                          const Place& place, int K, int c) {
  if (c >= K) return 0.0f;
  if (gates.decay == DecodeDecay::kNone) return 1.0f;
  return exp2_nonpositive(log_decay<T>(gates, place, K, c) * kLog2E);
}

template <typename T>
__device__ __forceinline__ float beta_of(const DecodeGates& gates,
                                         const Place& place) {
  if (gates.beta == nullptr) return 1.0f;
  return gates.beta_scale *
         sigmoid(widen(static_cast<const T*>(gates.beta)[place.row]));
}

template <typename T>
__device__ __forceinline__ float retention_of(const DecodeParams& p,
                                              const Place& place) {
  const DecodePreconditioner& given = p.preconditioner;
  switch (given.retention) {
    case DecodeRetention::kSigmoid: {
      float z = given.bias == nullptr ? 0.0f : given.bias[place.hv];
      if (given.logits != nullptr) {
        z += widen(static_cast<const T*>(given.logits)[place.row]);
      }
      return sigmoid(z);
    }
    case DecodeRetention::kTied:
      return decay_of<T>(p.gates, place, 1, 0);
    case DecodeRetention::kConstant:
      return given.value;
    default:
      return 1.0f;
  }
}

/// Norms, the write key, the step of d: one warp, its lanes on every 32nd
/// channel. `d` holds the lane's channels.
__device__ __forceinline__ void prepare_keys(const DecodeParams& p,
                                             const Place& place, int parts,
                                             float beta, float r,
                                             const float (&d)[kMaxParts],
                                             Shared& shared) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int K = static_cast<int>(p.shape.key_width);
  const bool scaled = p.preconditioner.d != nullptr;
  PreconditionerShape rule;
  rule.eta = p.preconditioner.eta;
  rule.beta_aware = p.preconditioner.beta_aware;
  rule.energy = p.preconditioner.energy;
  float q_squares = 0, k_squares = 0;
  for (int i = 0; i < parts; ++i) {
    const float q = shared.q[lane + 32 * i], k = shared.k[lane + 32 * i];
    q_squares = fmaf(q, q, q_squares);
    k_squares = fmaf(k, k, k_squares);
  }
  q_squares = warp_sum(q_squares);
  k_squares = warp_sum(k_squares);
  const precond::TokenScalars token =
      precond::token_scalars(rule, k_squares, beta, r);
  const float q_scale =
      rsqrtf(q_squares + kNormEpsilon) * rsqrtf(static_cast<float>(K));
  float s = 0, overlap = 0;
#pragma unroll
  for (int i = 0; i < kMaxParts; ++i) {
    if (i >= parts) continue;
    const int c = lane + 32 * i;
    const float k = shared.k[c], q = shared.q[c] * q_scale;
    const float kh = k * token.k_scale;
    const float write = scaled ? d[i] * kh : kh;
    s = fmaf(d[i], precond::squared(k, token.k_scale), s);
    overlap = fmaf(write, q, overlap);
    shared.q[c] = q;
    shared.k[c] = kh;
    shared.write[c] = write;
  }
  s = warp_sum(s);
  overlap = warp_sum(overlap);
  if (lane == 0) {
    shared.beta = beta;
    shared.overlap = overlap;
  }
  if (!scaled) return;
  const float a = precond::step_size(token.rate, token.rate_beta, s);
#pragma unroll
  for (int i = 0; i < kMaxParts; ++i) {
    const int c = lane + 32 * i;
    if (c >= K) continue;
    const float kh = shared.k[c];
    p.preconditioner.d_out[place.row * K + c] =
        precond::clip(precond::stepped(d[i], token.r, a, __fmul_rn(kh, kh)),
                      p.preconditioner.box_lo, p.preconditioner.box_hi);
  }
}

// ---- the state
// --------------------------------------------------------------

/// A lane's share of a tile: rows row0 + 4 i, columns column .. column + 3.
struct Tile {
  float4 at[kRowsALane];
  int row0, column;
  bool active;  ///< the columns exist

  __device__ Tile(int part, int slab, int lane, int V)
      : row0(part * kTile + lane / 8),
        column(slab * kTile + lane % 8 * 4),
        active(column < V) {}

  __device__ __forceinline__ void load(const float* state, int K, int V) {
#pragma unroll
    for (int i = 0; i < kRowsALane; ++i) {
      const int row = row0 + 4 * i;
      at[i] = active && row < K
                  ? *reinterpret_cast<const float4*>(state + row * V + column)
                  : float4{0, 0, 0, 0};
    }
  }
  /// Decays the tile and leaves its sums over the warp's 32 rows.
  __device__ __forceinline__ void reduce(Shared& shared, int warp, int lane) {
    float a[4] = {}, b[4] = {};
#pragma unroll
    for (int i = 0; i < kRowsALane; ++i) {
      const int row = row0 + 4 * i;
      const float decay = shared.decay[row];
      const float k = shared.k[row], q = shared.q[row];
      at[i] = {at[i].x * decay, at[i].y * decay, at[i].z * decay,
               at[i].w * decay};
      const float column_values[4] = {at[i].x, at[i].y, at[i].z, at[i].w};
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        a[j] = fmaf(k, column_values[j], a[j]);
        b[j] = fmaf(q, column_values[j], b[j]);
      }
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int step = 8; step < 32; step *= 2) {
        a[j] += __shfl_xor_sync(0xffffffffu, a[j], step);
        b[j] += __shfl_xor_sync(0xffffffffu, b[j], step);
      }
    }
    if (lane < 8) {
      *reinterpret_cast<float4*>(&shared.k_sums[warp][lane * 4]) = {a[0], a[1],
                                                                    a[2], a[3]};
      *reinterpret_cast<float4*>(&shared.q_sums[warp][lane * 4]) = {b[0], b[1],
                                                                    b[2], b[3]};
    }
  }
  /// With the sums of all `parts` warps of the slab, the first of them `warp0`:
  /// stores the new state and, for the first row of lanes, the outputs.
  __device__ __forceinline__ void update(Shared& shared, int warp0, int parts,
                                         float* state, int K, int V) {
    if (!active) return;
    float a[4] = {}, b[4] = {}, u[4];
    const int first = column % kTile;
    for (int part = 0; part < parts; ++part) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        a[j] += shared.k_sums[warp0 + part][first + j];
        b[j] += shared.q_sums[warp0 + part][first + j];
      }
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      u[j] = shared.beta * (shared.v[column + j] - a[j]);
      if (row0 == 0) shared.o[column + j] = fmaf(shared.overlap, u[j], b[j]);
    }
#pragma unroll
    for (int i = 0; i < kRowsALane; ++i) {
      const int row = row0 + 4 * i;
      if (row >= K) continue;
      const float w = shared.write[row];
      *reinterpret_cast<float4*>(state + row * V + column) = {
          fmaf(w, u[0], at[i].x), fmaf(w, u[1], at[i].y),
          fmaf(w, u[2], at[i].z), fmaf(w, u[3], at[i].w)};
    }
  }
};

/// The output norm with its gate, a column a thread.
template <typename T>
__device__ __forceinline__ void write_output(const DecodeParams& p,
                                             const Place& place, float gate,
                                             const Shared& shared) {
  const int V = static_cast<int>(p.shape.value_width);
  const int j = static_cast<int>(threadIdx.x);
  float squares = 0;
  for (int c = j % 32; c < V; c += 32) {
    squares = fmaf(shared.o[c], shared.o[c], squares);
  }
  squares = warp_sum(squares);
  if (j >= V) return;
  const float rstd = rsqrtf(squares / static_cast<float>(V) + p.eps);
  float y = shared.o[j] * rstd * p.norm_weight[j];
  if (p.activation == GateActivation::kSilu) y *= silu(gate);
  if (p.activation == GateActivation::kSigmoid) y *= sigmoid(gate);
  static_cast<T*>(p.o)[place.row * V + j] = narrow_to<T>(y);
}

template <typename T>
__global__ void __launch_bounds__(kMaxWarps * 32) step(const DecodeParams p) {
  auto& shared = *reinterpret_cast<Shared*>(dynamic_shared());
  const Layout layout(p.shape);
  const Place place(p.shape);
  const int K = static_cast<int>(p.shape.key_width);
  const int V = static_cast<int>(p.shape.value_width);
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32, lane = thread % 32;
  const float* state = p.state + place.row * K * V;
  float* state_out = p.state_out + place.row * K * V;

  // The long loads first; what comes before the sums runs beside them.
  Tile tile(warp % layout.parts, warp / layout.parts, lane, V);
  tile.load(state, K, V);
  float gate = 0;
  if (p.gate != nullptr && thread < V) {
    gate = widen(static_cast<const T*>(p.gate)[place.row * V + thread]);
  }
  float d[kMaxParts] = {}, beta = 0, r = 1;
  if (warp == 0) {
#pragma unroll
    for (int i = 0; i < kMaxParts; ++i) {
      if (p.preconditioner.d != nullptr && lane + 32 * i < K) {
        d[i] = p.preconditioner.d[place.row * K + lane + 32 * i];
      }
    }
    beta = beta_of<T>(p.gates, place);
    r = retention_of<T>(p, place);
  }
  convolve<T>(p.shape, p, place, layout, shared);
  if (thread < layout.parts * kTile) {
    shared.decay[thread] = decay_of<T>(p.gates, place, K, thread);
  }
  __syncthreads();
  if (warp == 0) prepare_keys(p, place, layout.parts, beta, r, d, shared);
  __syncthreads();

  for (int first = 0; first < layout.slabs; first += layout.together) {
    if (first > 0) {
      tile = Tile(warp % layout.parts, first + warp / layout.parts, lane, V);
      tile.load(state, K, V);
    }
    tile.reduce(shared, warp, lane);
    __syncthreads();
    tile.update(shared, warp - warp % layout.parts, layout.parts, state_out, K,
                V);
    __syncthreads();
  }
  write_output<T>(p, place, gate, shared);
}

}  // namespace osdn::kernels::decoding
