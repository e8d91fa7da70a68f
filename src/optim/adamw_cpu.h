#pragma once
// AdamW's arithmetic on plain memory.

#include <cstdint>

namespace osdn::optim {

/// One update's constants, computed in double and rounded once.
template <typename T>
struct AdamWScalars {
  T grad_scale;
  T beta1, one_minus_beta1;
  T beta2, one_minus_beta2;
  T decay;        ///< lr wd, or 0
  T step_size;    ///< lr / c1
  T inv_sqrt_c2;  ///< 1 / sqrt(c2)
  T eps;
};

/// `count` elements; grad may be null (zero gradient).
template <typename T>
void adamw_update(const AdamWScalars<T>& s, std::int64_t count, const T* grad,
                  T* p, T* m, T* v);

extern template void adamw_update(const AdamWScalars<float>&, std::int64_t,
                                  const float*, float*, float*, float*);
extern template void adamw_update(const AdamWScalars<double>&, std::int64_t,
                                  const double*, double*, double*, double*);

}  // namespace osdn::optim
