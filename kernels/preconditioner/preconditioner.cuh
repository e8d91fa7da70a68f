#pragma once
// The online-scaled diagonal preconditioner (docs/kernels/preconditioner.md):
//
//   k_write_t = d_t k_t;   kh_t = k_t / sqrt(|k_t|^2 + 1e-6) with l2_norm
//   s_t = <d_t, kh_t^2>;   n_t from |kh_t|^2 by `energy`
//   a_t = eta beta_t (1 - beta_t s_t) / n_t
//   d_{t+1} = clip(r_t d_t + a_t kh_t^2, box_lo, box_hi)
//
// One warp walks one (document, value head) and clips every token exactly, so
// the operator is short of latency and not of bandwidth: launch it on a stream
// of its own beside other work. eta = 0 and d0 = 1 gives k_write = k bitwise.
//
// T tokens, N documents, H key heads, HV value heads (a multiple of H), K key
// channels (1..256). Contiguous device memory unless a stride is named. NaN
// in an input reaches what depends on it; it is not clipped away.

#include "kernels/common/launcher.h"

namespace osdn::kernels {

/// n_t, with e = |kh_t|^2.
enum class KeyEnergy : int {
  kFloor,  ///< max(e, 1e-6)
  kOff,    ///< 1
  kAdd,    ///< e + 1e-5, for imported models
};

/// Tokens between two saved values of d.
inline constexpr std::int64_t kPreconditionerInterval = 16;

/// Sizes and constants that both directions share.
struct PreconditionerShape {
  std::int64_t tokens = 0;
  std::int64_t documents = 0;
  std::int64_t key_heads = 0;
  std::int64_t value_heads = 0;
  std::int64_t key_width = 0;
  std::int64_t k_row_stride = 0;  ///< elements from token to token; 0: H * K
  Element element = Element::kBF16;
  float eta = 0.003f;
  float box_lo = 0.5f;
  float box_hi = 2.0f;
  bool beta_aware = true;  ///< false: a_t = eta (1 - s_t) / n_t
  bool l2_norm = true;     ///< false: k is normalised already, kh = k
  bool d0_per_document = false;
  KeyEnergy energy = KeyEnergy::kFloor;
};

struct PreconditionerFwdParams {
  PreconditionerShape shape;
  const std::int64_t* cu_seqlens = nullptr;  ///< [N+1], on the device
  const void* k = nullptr;                   ///< [T,H,K], element
  const float* beta = nullptr;   ///< [T,HV]; may be null unless beta_aware
  const float* r = nullptr;      ///< [T,HV] or null: 1
  const float* d0 = nullptr;     ///< [HV,K] or [N,HV,K]
  void* k_write = nullptr;       ///< [T,HV,K], element
  float* d_T = nullptr;          ///< [N,HV,K] or null
  float* d_per_token = nullptr;  ///< [T,HV,K] or null; d before the update
  /// Saved for the backward, both or neither: s [T,HV] and d at the start of
  /// every 16 tokens of a document, [preconditioner_checkpoint_rows, HV, K].
  float* s = nullptr;
  float* d_checkpoint = nullptr;
};

struct PreconditionerBwdParams {
  PreconditionerShape shape;
  const std::int64_t* cu_seqlens = nullptr;
  const void* k = nullptr;
  const float* beta = nullptr;
  const float* r = nullptr;
  const float* s = nullptr;             ///< from the forward
  const float* d_checkpoint = nullptr;  ///< from the forward
  const void* grad_k_write = nullptr;   ///< [T,HV,K], element
  const float* grad_d_T = nullptr;      ///< [N,HV,K] or null: zero
  /// [T,H,K], element, or null: added to grad_k in fp32 before it is rounded
  /// (may be grad_k itself).
  const void* grad_k_addend = nullptr;
  void* grad_k = nullptr;      ///< [T,H,K], element, contiguous
  float* grad_beta = nullptr;  ///< [T,HV]; may be null unless beta_aware
  float* grad_r = nullptr;     ///< [T,HV]; null exactly when r is
  float* grad_d0 = nullptr;    ///< the shape of d0
  /// No gradient through d: grad_k = d grad_k_write, the others are zero.
  bool detach = false;
  void* workspace = nullptr;  ///< preconditioner_bwd_workspace_bytes
};

/// Rows of d_checkpoint: every document has its own, whatever its length.
constexpr std::int64_t preconditioner_checkpoint_rows(std::int64_t tokens,
                                                      std::int64_t documents) {
  return tokens / kPreconditionerInterval + documents;
}

/// Why the operator cannot run as asked, or null.
const char* preconditioner_fwd_unsupported(const PreconditionerFwdParams&);
const char* preconditioner_bwd_unsupported(const PreconditionerBwdParams&);

std::int64_t preconditioner_bwd_workspace_bytes(const PreconditionerBwdParams&);

/// Neither allocate nor synchronise; throw when unsupported or when a launch
/// fails.
void preconditioner_fwd(const PreconditionerFwdParams&, Stream stream);
void preconditioner_bwd(const PreconditionerBwdParams&, Stream stream);

}  // namespace osdn::kernels
