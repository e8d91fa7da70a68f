#include "adamw_cpu.h"

#include <cmath>

namespace osdn::optim {

template <typename T>
void adamw_update(const AdamWScalars<T>& s, std::int64_t count, const T* grad,
                  T* __restrict__ p, T* __restrict__ m, T* __restrict__ v) {
  for (std::int64_t i = 0; i < count; ++i) {
    const T g = grad != nullptr ? grad[i] * s.grad_scale : T(0);
    m[i] = s.beta1 * m[i] + s.one_minus_beta1 * g;
    v[i] = s.beta2 * v[i] + s.one_minus_beta2 * (g * g);
    const T denominator = std::sqrt(v[i]) * s.inv_sqrt_c2 + s.eps;
    p[i] = p[i] - s.decay * p[i] - s.step_size * (m[i] / denominator);
  }
}

template void adamw_update(const AdamWScalars<float>&, std::int64_t,
                           const float*, float*, float*, float*);
template void adamw_update(const AdamWScalars<double>&, std::int64_t,
                           const double*, double*, double*, double*);

}  // namespace osdn::optim
