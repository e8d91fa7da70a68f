#pragma once
// SwiGLU's pointwise part (docs/kernels/swiglu.md): y = silu(gate) * up.
//
// R rows of i elements. Rows of every tensor may be slices of wider rows, so
// gate and up can be the halves of one product [R, 2i].

#include "kernels/common/launcher.h"

namespace osdn::kernels {

struct SwigluFwdParams {
  std::int64_t rows = 0;
  std::int64_t width = 0;  ///< i
  Element element = Element::kBF16;
  const void* gate = nullptr;                   ///< [R,i], element
  const void* up = nullptr;                     ///< [R,i], element
  std::int64_t gate_stride = 0, up_stride = 0;  ///< elements; 0: i
  void* y = nullptr;                            ///< [R,i], element
  std::int64_t y_stride = 0;
};

struct SwigluBwdParams {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  Element element = Element::kBF16;
  const void* gate = nullptr;
  const void* up = nullptr;
  std::int64_t gate_stride = 0, up_stride = 0;
  const void* grad_y = nullptr;  ///< [R,i], element
  std::int64_t grad_y_stride = 0;
  void* grad_gate = nullptr;  ///< [R,i], element; may be gate itself
  void* grad_up = nullptr;    ///< [R,i], element; may be up itself
  std::int64_t grad_gate_stride = 0, grad_up_stride = 0;
  /// [R,i], element, or null: the forward's result again, same bits, for a
  /// caller that did not keep it.
  void* y = nullptr;
  std::int64_t y_stride = 0;
};

const char* swiglu_fwd_unsupported(const SwigluFwdParams&);
const char* swiglu_bwd_unsupported(const SwigluBwdParams&);
void swiglu_fwd(const SwigluFwdParams&, Stream stream);
void swiglu_bwd(const SwigluBwdParams&, Stream stream);

}  // namespace osdn::kernels
