#pragma once
// RMSNorm over rows, with the addition of a residual folded in
// (docs/kernels/norm.md):
//
//   sum = x + residual (rounded to the element type);  or sum = x
//   y   = sum / sqrt(mean(sum^2) + eps) * weight
//
// The backward forms the statistics again from sum: nothing else is saved.
// R rows of h = 1..16384 elements, contiguous; statistics and weights in fp32.

#include "kernels/common/launcher.h"

namespace osdn::kernels {

struct RmsNormFwdParams {
  std::int64_t rows = 0;
  std::int64_t width = 0;  ///< h
  Element element = Element::kBF16;
  float eps = 1e-6f;
  const void* x = nullptr;         ///< [R,h], element
  const void* residual = nullptr;  ///< [R,h], element, or null
  const float* weight = nullptr;   ///< [h]
  void* sum = nullptr;  ///< [R,h], element: given exactly with residual; may
                        ///< be x or residual itself
  void* y = nullptr;    ///< [R,h], element
};

struct RmsNormBwdParams {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  Element element = Element::kBF16;
  float eps = 1e-6f;
  const void* x = nullptr;        ///< [R,h]: the forward's sum, or its x
  const float* weight = nullptr;  ///< [h]
  const void* grad_y = nullptr;   ///< [R,h], element
  /// [R,h], element, or null: the gradient that reaches sum directly.
  const void* grad_sum = nullptr;
  void* grad_x = nullptr;        ///< [R,h], element: of x and of residual; may
                                 ///< be grad_y or grad_sum itself
  float* grad_weight = nullptr;  ///< [h]
  void* workspace = nullptr;     ///< rms_norm_bwd_workspace_bytes
};

const char* rms_norm_fwd_unsupported(const RmsNormFwdParams&);
const char* rms_norm_bwd_unsupported(const RmsNormBwdParams&);
std::int64_t rms_norm_bwd_workspace_bytes(const RmsNormBwdParams&);
void rms_norm_fwd(const RmsNormFwdParams&, Stream stream);
void rms_norm_bwd(const RmsNormBwdParams&, Stream stream);

}  // namespace osdn::kernels
