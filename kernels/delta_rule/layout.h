#pragma once
// The intermediates through which the kernels of the delta rule meet, and the
// arguments that all of them take. One formula cuts the buffers and says how
// large they are.
//
// A chunk is up to 64 tokens of one document; a "chunk head" is the pair
// (chunk, value head), index chunk * HV + hv. Per chunk head, with
// b = beta, rq, rk the reciprocal norms and G the running sum of log2 decay
// inside the chunk (docs/kernels/delta_rule.md has the algebra):
//   vectors [8][64] fp32      rq, rk, G (0 without a per-head gate), beta, and
//                             for the chunk version the products of them that
//                             scale accumulators, see Vector
//   n, P    [64][64]          -(I + A diag b)^-1 A and the score of q on kt
//   S, dS   [V][K]            state at the chunk's start, its gradient at the
//   end Z, X    [64][V]           U = b Z; X = L^-T dU
// Rows past the end of a document are zero in all of them (rq, rk finite).

#include <cstdint>

#include "kernels/delta_rule/delta_rule.cuh"

namespace osdn::kernels::delta_rule {

inline constexpr int kChunk = 64;
inline constexpr float kNormEpsilon = 1e-6f;

struct ChunkInfo {
  std::int64_t first;  ///< token
  std::int32_t rows;   ///< 1..64, 0 for an unused entry
  std::int32_t document;
};

enum Vector {
  kVecRq,
  kVecRk,
  kVecG,
  kVecBeta,
  kVecRead,   ///< rk e^G, of k S
  kVecQuery,  ///< rq e^G, of q S
  kVecWrite,  ///< rk e^(G_C - G), of kt U^T
  kVecDecay,  ///< e^(G_C), of S; one number in all places
  kVectors
};

/// A token that decays by more than this many powers of two leaves nothing in
/// fp32; held there, running sums keep their precision behind it.
inline constexpr float kLogDecayFloor = -127.f;

/// E is the operand type: Bf16 (kChunk) or float (kPlain).
struct Args {
  // sizes
  std::int64_t T, N;
  std::int64_t max_chunks;  ///< bound that needs no look at cu_seqlens
  int H, HV, K, V;
  bool l2_norm;
  DeltaRuleGate gate;
  float scale;  ///< K^-1/2
  // inputs
  const void *q, *k, *kt, *v;
  bool separate_key;
  const float *beta, *g, *state0;
  const std::int64_t* cu_seqlens;
  const void* grad_o;
  const float* grad_state_T;
  // outputs
  void *o, *grad_q, *grad_k, *grad_kt, *grad_v;
  float *state_T, *grad_beta, *grad_g, *grad_state0;
  // intermediates
  std::int32_t* first_chunk;  ///< [N+1] of each document
  ChunkInfo* chunks;          ///< [max_chunks]
  float* vectors;
  float* g_cum;  ///< [chunk heads][64][K], per-channel gate only
  void *n, *P;
  // per-channel gate, kChunk: operands that carry their decay, [64][K]
  void *qg, *kg, *kd;
  float* channel_decay;  ///< [chunk heads][K], e^(G_C)
  void *S, *dS, *Z, *X;
  float* parked;  ///< [gradient_blocks][kParkedFloats], kChunk with K = 256
};

/// What a block of the gradient kernel sets aside: dq and dk of two parts of
/// 128 channels.
inline constexpr int kParkedFloats = 2 * 2 * kChunk * 128;
/// Persistent blocks of the gradient kernel for (chunk, key head) pairs.
std::int64_t gradient_blocks(std::int64_t items);

/// Number of 64-token chunks that N documents of T tokens can have at most.
constexpr std::int64_t chunk_bound(std::int64_t T, std::int64_t N) {
  return T / kChunk + (N < T ? N : T);
}

/// Hands out consecutive, aligned pieces of a buffer; with a null base it
/// only counts.
class Cutter {
 public:
  explicit Cutter(void* base) : base_(static_cast<unsigned char*>(base)) {}
  template <typename T>
  void cut(T*& pointer, std::int64_t bytes) {
    pointer = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
    used_ += (bytes + 255) / 256 * 256;
  }
  std::int64_t used() const { return used_; }

 private:
  unsigned char* base_;
  std::int64_t used_ = 0;
};

/// Where a backward call without `saved` keeps its intermediates; for tests.
Args locate_intermediates(const DeltaRuleInputs& in);
/// All arguments of a backward call with `saved`, and forward's outputs, to
/// run the kernels one by one; for timing.
Args bind_backward(const DeltaRuleFwdParams& fwd,
                   const DeltaRuleBwdParams& bwd);

// ---- kernels, by version; each source file holds one ------------------------
void launch_setup(const Args& args, Stream stream);
/// Inside a version every function takes the intermediates named above.
struct Version {
  void (*prepare)(const Args&, Element, Stream);  ///< vectors, n, P
  void (*scan)(const Args&, Element, Stream);     ///< o, state_T
  /// S, Z (`states`) and dS, X, grad_state0 (`reverse`): either or both.
  void (*backward_scans)(const Args&, Element, bool states, bool reverse,
                         Stream);
  void (*gradients)(const Args&, Element, Stream);  ///< all other gradients
};
extern const Version kPlainVersion;
extern const Version kChunkVersion;

}  // namespace osdn::kernels::delta_rule
