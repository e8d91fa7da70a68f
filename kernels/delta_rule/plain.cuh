#pragma once
// Version 0 of the delta rule: the chunk form written out in fp32 with loops,
// for any K and V up to 256, any gate, bf16 or fp32 tensors. It stays as the
// yardstick of the fast version and serves the shapes that one does not take.
//
// T is the type of the tensors; all intermediates are fp32.

#include "kernels/common/device.cuh"
#include "kernels/common/launch.cuh"
#include "kernels/delta_rule/layout.h"

namespace osdn::kernels::delta_rule::plain {

inline constexpr int kThreads = 256;
inline constexpr int kWarps = kThreads / 32;
inline constexpr int kSlice = 32;  ///< value columns of one scanning block
inline constexpr int kPitch = kChunk + 1;

/// One chunk head as a kernel sees it.
template <typename T>
struct View {
  const Args& args;
  ChunkInfo chunk;
  std::int64_t chunk_head;
  int hv, h;
  const float *rq, *rk, *G, *beta, *g_cum, *n, *P;

  __device__ View(const Args& a, std::int64_t chunk_index, int value_head)
      : args(a),
        chunk(a.chunks[chunk_index]),
        chunk_head(chunk_index * a.HV + value_head),
        hv(value_head),
        h(value_head / (a.HV / a.H)) {
    const float* vectors = a.vectors + chunk_head * kVectors * kChunk;
    rq = vectors + kVecRq * kChunk;
    rk = vectors + kVecRk * kChunk;
    G = vectors + kVecG * kChunk;
    beta = vectors + kVecBeta * kChunk;
    g_cum = a.g_cum + chunk_head * kChunk * a.K;
    n = static_cast<const float*>(a.n) + chunk_head * kChunk * kChunk;
    P = static_cast<const float*>(a.P) + chunk_head * kChunk * kChunk;
  }

  __device__ std::int64_t key_row(int i) const {
    return ((chunk.first + i) * args.H + h) * args.K;
  }
  __device__ std::int64_t head_row(int i, int width) const {
    return ((chunk.first + i) * args.HV + hv) * width;
  }
  __device__ float q(int i, int c) const {
    return widen(static_cast<const T*>(args.q)[key_row(i) + c]);
  }
  __device__ float k(int i, int c) const {
    return widen(static_cast<const T*>(args.k)[key_row(i) + c]);
  }
  __device__ float kt(int i, int c) const {
    return args.separate_key
               ? widen(static_cast<const T*>(args.kt)[head_row(i, args.K) + c])
               : k(i, c);
  }
  __device__ float v(int i, int j) const {
    return widen(static_cast<const T*>(args.v)[head_row(i, args.V) + j]);
  }
  __device__ float grad_o(int i, int j) const {
    return widen(static_cast<const T*>(args.grad_o)[head_row(i, args.V) + j]);
  }
  /// log2 of the decay from the chunk's start to token i.
  __device__ float log_decay(int i, int c) const {
    return args.gate == DeltaRuleGate::kPerChannel ? g_cum[i * args.K + c]
                                                   : G[i];
  }
  __device__ float decay(int i, int c) const {
    return exp2_nonpositive(log_decay(i, c));
  }
  /// Decay between tokens j <= i.
  __device__ float decay_between(int i, int j, int c) const {
    return exp2_nonpositive(log_decay(i, c) - log_decay(j, c));
  }
};

/// vectors, g_cum, n, P; one block a chunk head.
template <typename T>
__global__ void __launch_bounds__(kThreads) prepare(const Args args) {
  const std::int64_t chunk_head = blockIdx.x;
  const View<T> view(args, chunk_head / args.HV,
                     static_cast<int>(chunk_head % args.HV));
  const int rows = view.chunk.rows;
  if (rows == 0) return;
  auto* A = reinterpret_cast<float*>(dynamic_shared());
  float* N = A + kChunk * kPitch;
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32, lane = thread % 32;
  float* vectors = args.vectors + chunk_head * kVectors * kChunk;

  for (int i = warp; i < kChunk; i += kWarps) {
    float q_sum = 0, k_sum = 0;
    if (i < rows) {
      for (int c = lane; c < args.K; c += 32) {
        const float q = view.q(i, c), k = view.k(i, c);
        q_sum += q * q;
        k_sum += k * k;
      }
    }
    q_sum = warp_sum(q_sum);
    k_sum = warp_sum(k_sum);
    if (lane == 0) {
      const bool used = args.l2_norm && i < rows;
      vectors[kVecRq * kChunk + i] = used ? rsqrtf(q_sum + kNormEpsilon) : 1.f;
      vectors[kVecRk * kChunk + i] = used ? rsqrtf(k_sum + kNormEpsilon) : 1.f;
      vectors[kVecBeta * kChunk + i] =
          i < rows ? args.beta[view.head_row(i, 1)] : 0.f;
    }
  }
  if (args.gate == DeltaRuleGate::kPerChannel) {
    for (int c = thread; c < args.K; c += kThreads) {
      float sum = 0;
      for (int i = 0; i < kChunk; ++i) {
        if (i < rows) {
          sum += fmaxf(args.g[view.head_row(i, args.K) + c] * kLog2E,
                       kLogDecayFloor);
        }
        args.g_cum[(chunk_head * kChunk + i) * args.K + c] = sum;
      }
    }
  }
  if (thread == 0) {
    float sum = 0;
    for (int i = 0; i < kChunk; ++i) {
      if (i < rows && args.gate == DeltaRuleGate::kPerHead) {
        sum += fmaxf(args.g[view.head_row(i, 1)] * kLog2E, kLogDecayFloor);
      }
      vectors[kVecG * kChunk + i] = sum;
    }
  }
  __syncthreads();

  float* P = static_cast<float*>(args.P) + chunk_head * kChunk * kChunk;
  for (int pair = thread; pair < kChunk * kChunk; pair += kThreads) {
    const int i = pair / kChunk, j = pair % kChunk;
    float a = 0, p = 0;
    if (i < rows && j <= i) {
      for (int c = 0; c < args.K; ++c) {
        const float write = view.kt(j, c) * view.decay_between(i, j, c);
        a += view.k(i, c) * write;
        p += view.q(i, c) * write;
      }
      a *= view.rk[i] * view.rk[j];
      p *= view.rq[i] * view.rk[j];
    }
    A[i * kPitch + j] = j < i ? a : 0.f;
    P[pair] = p;
  }
  __syncthreads();
  if (thread < kChunk) {  // column `thread` of n by forward substitution
    for (int i = 0; i < kChunk; ++i) {
      float sum = A[i * kPitch + thread];
      for (int j = thread + 1; j < i; ++j) {
        sum += A[i * kPitch + j] * view.beta[j] * N[j * kPitch + thread];
      }
      N[i * kPitch + thread] = i > thread ? -sum : 0.f;
    }
  }
  __syncthreads();
  float* n = static_cast<float*>(args.n) + chunk_head * kChunk * kChunk;
  for (int pair = thread; pair < kChunk * kChunk; pair += kThreads) {
    n[pair] = N[pair / kChunk * kPitch + pair % kChunk];
  }
}

/// The state over a document for one slice of value columns. With kOutput
/// writes o and state_T, else S and Z.
template <typename T, bool kOutput>
__global__ void __launch_bounds__(kThreads) scan(const Args args) {
  const int slices = (args.V + kSlice - 1) / kSlice;
  const std::int64_t unit = blockIdx.x / slices;
  const int j0 = static_cast<int>(blockIdx.x % slices) * kSlice;
  const int document_head = static_cast<int>(unit % args.HV);
  const std::int64_t document = unit / args.HV;
  const int thread = static_cast<int>(threadIdx.x);
  const int j = thread % kSlice, group = thread / kSlice;
  const int column = j0 + j;
  const bool inside = column < args.V;
  const int K = args.K, V = args.V;

  auto* S = reinterpret_cast<float*>(dynamic_shared());  // [K][kSlice]
  float* E = S + K * kSlice;                             // [64][kSlice]
  float* Z = E + kChunk * kSlice;
  const std::int64_t state = unit * K * V;
  for (int c = group; c < K; c += kWarps) {
    S[c * kSlice + j] = inside && args.state0 != nullptr
                            ? args.state0[state + c * V + column]
                            : 0.f;
  }
  for (std::int64_t chunk = args.first_chunk[document];
       chunk < args.first_chunk[document + 1]; ++chunk) {
    const View<T> view(args, chunk, document_head);
    const int rows = view.chunk.rows;
    __syncthreads();
    if (!kOutput && inside) {
      float* out = static_cast<float*>(args.S) + view.chunk_head * K * V;
      for (int c = group; c < K; c += kWarps) {
        out[column * K + c] = S[c * kSlice + j];
      }
    }
    for (int i = group; i < rows; i += kWarps) {
      float sum = 0;
      for (int c = 0; c < K; ++c) {
        sum += view.k(i, c) * view.decay(i, c) * S[c * kSlice + j];
      }
      E[i * kSlice + j] = (inside ? view.v(i, column) : 0.f) - view.rk[i] * sum;
    }
    __syncthreads();
    for (int i = group; i < rows; i += kWarps) {
      float sum = E[i * kSlice + j];
      for (int m = 0; m < i; ++m) {
        sum += view.n[i * kChunk + m] * view.beta[m] * E[m * kSlice + j];
      }
      Z[i * kSlice + j] = sum;
    }
    __syncthreads();
    if (kOutput) {
      for (int i = group; i < rows && inside; i += kWarps) {
        float sum = 0;
        for (int c = 0; c < K; ++c) {
          sum += view.q(i, c) * view.decay(i, c) * S[c * kSlice + j];
        }
        sum *= view.rq[i];
        for (int m = 0; m <= i; ++m) {
          sum += view.P[i * kChunk + m] * view.beta[m] * Z[m * kSlice + j];
        }
        static_cast<T*>(args.o)[view.head_row(i, V) + column] =
            narrow_to<T>(args.scale * sum);
      }
    } else if (inside) {
      float* out = static_cast<float*>(args.Z) + view.chunk_head * kChunk * V;
      for (int i = group; i < kChunk; i += kWarps) {
        out[i * V + column] = i < rows ? Z[i * kSlice + j] : 0.f;
      }
    }
    __syncthreads();
    for (int c = group; c < K; c += kWarps) {
      float sum = view.decay(rows - 1, c) * S[c * kSlice + j];
      for (int i = 0; i < rows; ++i) {
        sum += view.kt(i, c) * view.rk[i] * view.decay_between(rows - 1, i, c) *
               view.beta[i] * Z[i * kSlice + j];
      }
      S[c * kSlice + j] = sum;
    }
  }
  if (kOutput && args.state_T != nullptr && inside) {
    for (int c = group; c < K; c += kWarps) {
      args.state_T[state + c * V + column] = S[c * kSlice + j];
    }
  }
}

/// From the last chunk to the first: dS (times K^1/2) at each chunk's end, X,
/// grad_state0.
template <typename T>
__global__ void __launch_bounds__(kThreads) reverse(const Args args) {
  const int slices = (args.V + kSlice - 1) / kSlice;
  const std::int64_t unit = blockIdx.x / slices;
  const int j0 = static_cast<int>(blockIdx.x % slices) * kSlice;
  const int document_head = static_cast<int>(unit % args.HV);
  const std::int64_t document = unit / args.HV;
  const int thread = static_cast<int>(threadIdx.x);
  const int j = thread % kSlice, group = thread / kSlice;
  const int column = j0 + j;
  const bool inside = column < args.V;
  const int K = args.K, V = args.V;

  auto* dS = reinterpret_cast<float*>(dynamic_shared());  // [K][kSlice]
  float* dU = dS + K * kSlice;                            // [64][kSlice]
  float* X = dU + kChunk * kSlice;
  const std::int64_t state = unit * K * V;
  for (int c = group; c < K; c += kWarps) {
    dS[c * kSlice + j] =
        inside && args.grad_state_T != nullptr
            ? args.grad_state_T[state + c * V + column] / args.scale
            : 0.f;
  }
  for (std::int64_t chunk = args.first_chunk[document + 1] - 1;
       chunk >= args.first_chunk[document]; --chunk) {
    const View<T> view(args, chunk, document_head);
    const int rows = view.chunk.rows;
    __syncthreads();
    if (inside) {
      float* out = static_cast<float*>(args.dS) + view.chunk_head * K * V;
      for (int c = group; c < K; c += kWarps) {
        out[column * K + c] = dS[c * kSlice + j];
      }
    }
    for (int i = group; i < rows; i += kWarps) {
      float sum = 0;
      for (int c = 0; c < K; ++c) {
        sum += view.kt(i, c) * view.decay_between(rows - 1, i, c) *
               dS[c * kSlice + j];
      }
      sum *= view.rk[i];
      for (int m = i; m < rows && inside; ++m) {
        sum += view.P[m * kChunk + i] * view.grad_o(m, column);
      }
      dU[i * kSlice + j] = sum;
    }
    __syncthreads();
    for (int i = group; i < kChunk; i += kWarps) {
      float sum = 0;
      if (i < rows) {
        sum = dU[i * kSlice + j];
        for (int m = i + 1; m < rows; ++m) {
          sum += view.n[m * kChunk + i] * view.beta[m] * dU[m * kSlice + j];
        }
      }
      X[i * kSlice + j] = sum;
      if (inside) {
        static_cast<float*>(
            args.X)[(view.chunk_head * kChunk + i) * V + column] = sum;
      }
    }
    __syncthreads();
    for (int c = group; c < K; c += kWarps) {
      float sum = view.decay(rows - 1, c) * dS[c * kSlice + j];
      for (int i = 0; i < rows && inside; ++i) {
        sum += view.decay(i, c) *
               (view.rq[i] * view.q(i, c) * view.grad_o(i, column) -
                view.rk[i] * view.k(i, c) * view.beta[i] * X[i * kSlice + j]);
      }
      dS[c * kSlice + j] = sum;
    }
  }
  if (args.grad_state0 != nullptr && inside) {
    for (int c = group; c < K; c += kWarps) {
      args.grad_state0[state + c * V + column] =
          args.scale * dS[c * kSlice + j];
    }
  }
}

/// Everything else, one block a (chunk, key head); its value heads follow one
/// another and add into dq and dk in shared memory.
template <typename T>
__global__ void __launch_bounds__(kThreads) gradients(const Args args) {
  const std::int64_t chunk_index = blockIdx.x / args.H;
  const int h = static_cast<int>(blockIdx.x % args.H);
  const int heads = args.HV / args.H;
  const int rows = args.chunks[chunk_index].rows;
  if (rows == 0) return;
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32, lane = thread % 32;
  const int K = args.K, V = args.V;
  const bool channel = args.gate == DeltaRuleGate::kPerChannel;

  auto* dA = reinterpret_cast<float*>(dynamic_shared());
  float* dP = dA + kChunk * kPitch;
  float* dG = dP + kChunk * kPitch;  // [64] or [64][K]
  float* k_dot = dG + (channel ? kChunk * K : kChunk);
  float* state_dot = k_dot + kChunk;  // [K]
  float* dq = state_dot + K;          // [64][K]
  float* dk = dq + kChunk * K;
  for (int at = thread; at < kChunk * K; at += kThreads) dq[at] = dk[at] = 0;
  for (int i = thread; i < kChunk; i += kThreads) k_dot[i] = 0;

  for (int head = 0; head < heads; ++head) {
    const View<T> view(args, chunk_index, h * heads + head);
    const std::int64_t at_value = view.chunk_head * kChunk * V;
    const float* X = static_cast<const float*>(args.X) + at_value;
    const float* Z = static_cast<const float*>(args.Z) + at_value;
    const float* S =
        static_cast<const float*>(args.S) + view.chunk_head * K * V;
    const float* dS =
        static_cast<const float*>(args.dS) + view.chunk_head * K * V;
    __syncthreads();
    for (int pair = thread; pair < kChunk * kChunk; pair += kThreads) {
      const int i = pair / kChunk, j = pair % kChunk;
      float da = 0, dp = 0;
      if (i < rows && j <= i) {
        for (int v = 0; v < V; ++v) {
          da += X[i * V + v] * Z[j * V + v];
          dp += view.grad_o(i, v) * Z[j * V + v];
        }
        da *= -view.beta[i] * view.beta[j] * view.rk[i] * view.rk[j];
        dp *= view.beta[j] * view.rq[i] * view.rk[j];
      }
      dA[i * kPitch + j] = j < i ? da : 0.f;
      dP[i * kPitch + j] = dp;
    }
    for (int i = warp; i < rows; i += kWarps) {
      float dot = 0;
      for (int v = lane; v < V; v += 32) {
        dot += X[i * V + v] * Z[i * V + v];
        static_cast<T*>(args.grad_v)[view.head_row(i, V) + v] =
            narrow_to<T>(args.scale * view.beta[i] * X[i * V + v]);
      }
      dot = warp_sum(dot);
      if (lane == 0) args.grad_beta[view.head_row(i, 1)] = args.scale * dot;
    }
    __syncthreads();
    // All three at fixed norms, of the raw operands.
    float to_end[8] = {};  // sum over rows of kt times its state-write gradient
    for (int i = warp; i < rows; i += kWarps) {
      float dg_row = 0, kt_row = 0;
      for (int c = lane; c < K; c += 32) {
        float dq_c = 0, dk_c = 0, dkt_c = 0;
        for (int v = 0; v < V; ++v) {
          dq_c += view.grad_o(i, v) * S[v * K + c];
          dk_c += X[i * V + v] * S[v * K + c];
          dkt_c += Z[i * V + v] * dS[v * K + c];
        }
        const float decay = view.decay(i, c);
        dq_c *= view.rq[i] * decay;
        dk_c *= -view.beta[i] * view.rk[i] * decay;
        dkt_c *= view.beta[i] * view.rk[i] * view.decay_between(rows - 1, i, c);
        to_end[c / 32] += view.kt(i, c) * dkt_c;
        for (int m = 0; m <= i; ++m) {
          const float key = view.kt(m, c) * view.decay_between(i, m, c);
          dq_c += dP[i * kPitch + m] * key;
          dk_c += dA[i * kPitch + m] * key;
        }
        for (int m = i; m < rows; ++m) {
          dkt_c +=
              view.decay_between(m, i, c) * (dA[m * kPitch + i] * view.k(m, c) +
                                             dP[m * kPitch + i] * view.q(m, c));
        }
        const float kt_part = view.kt(i, c) * dkt_c;
        const float dg = view.q(i, c) * dq_c + view.k(i, c) * dk_c - kt_part;
        if (channel) dG[i * K + c] = dg;
        dg_row += dg;
        dq[i * K + c] += dq_c;
        dk[i * K + c] += dk_c;
        if (args.separate_key) {
          kt_row += kt_part;
          static_cast<T*>(args.grad_kt)[view.head_row(i, K) + c] =
              narrow_to<T>(args.scale * dkt_c);
        } else {
          dk[i * K + c] += dkt_c;
        }
      }
      dg_row = warp_sum(dg_row);
      kt_row = warp_sum(kt_row);
      if (lane == 0) {
        if (!channel) dG[i] = dg_row;
        k_dot[i] += kt_row;
      }
    }
    if (args.gate != DeltaRuleGate::kNone) {
      // dG of the last row also holds the decay of the state: per channel,
      // sum_i (kt dkt)_i of the state write + e^{G_C} <S, dS>.
      __syncthreads();
      float* partial = dA;  // [kWarps][K]: dA and dP are done with
      for (int c = lane; c < K; c += 32) partial[K * warp + c] = to_end[c / 32];
      __syncthreads();
      for (int c = thread; c < K; c += kThreads) {
        float sum = 0;
        for (int v = 0; v < V; ++v) sum += S[v * K + c] * dS[v * K + c];
        sum *= view.decay(rows - 1, c);
        for (int w = 0; w < kWarps; ++w) sum += partial[K * w + c];
        state_dot[c] = sum;
      }
      __syncthreads();
      if (channel) {
        for (int c = thread; c < K; c += kThreads) {
          float sum = state_dot[c];
          for (int i = rows - 1; i >= 0; --i) {
            sum += dG[i * K + c];
            args.grad_g[view.head_row(i, K) + c] = args.scale * sum;
          }
        }
      } else if (thread == 0) {
        float sum = 0;
        for (int c = 0; c < K; ++c) sum += state_dot[c];
        for (int i = rows - 1; i >= 0; --i) {
          sum += dG[i];
          args.grad_g[view.head_row(i, 1)] = args.scale * sum;
        }
      }
    }
  }
  __syncthreads();
  const View<T> view(args, chunk_index, h * heads);
  for (int i = warp; i < rows; i += kWarps) {
    float q_dot = 0, key_dot = 0;
    for (int c = lane; c < K; c += 32) {
      q_dot += view.q(i, c) * dq[i * K + c];
      key_dot += view.k(i, c) * dk[i * K + c];
    }
    q_dot = warp_sum(q_dot);
    key_dot = warp_sum(key_dot) + k_dot[i];
    const float rq = view.rq[i], rk = view.rk[i];
    const float q_pull = args.l2_norm ? rq * rq * q_dot : 0.f;
    const float k_pull = args.l2_norm ? rk * rk * key_dot : 0.f;
    for (int c = lane; c < K; c += 32) {
      static_cast<T*>(args.grad_q)[view.key_row(i) + c] =
          narrow_to<T>(args.scale * (dq[i * K + c] - q_pull * view.q(i, c)));
      static_cast<T*>(args.grad_k)[view.key_row(i) + c] =
          narrow_to<T>(args.scale * (dk[i * K + c] - k_pull * view.k(i, c)));
    }
  }
}

inline std::int64_t gradients_shared_bytes(const Args& args) {
  const std::int64_t K = args.K;
  const bool channel = args.gate == DeltaRuleGate::kPerChannel;
  return 4 * (2 * kChunk * kPitch + (channel ? kChunk * K : kChunk) + kChunk +
              K + 2 * kChunk * K);
}

}  // namespace osdn::kernels::delta_rule::plain
