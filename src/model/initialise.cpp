#include "initialise.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "osdn/core/hash.h"
#include "osdn/core/random.h"

namespace osdn::model {
namespace {

/// dt of the softplus gates is drawn log-uniformly from this range.
constexpr double kMinTimeStep = 0.001;
constexpr double kMaxTimeStep = 0.1;
constexpr double kTimeStepFloor = 1e-4;

std::vector<double> draw_normal(Xoshiro256& random, std::int64_t n,
                                double range) {
  std::vector<double> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); i += 2) {
    const auto pair = random.normal_pair();
    values[i] = range * pair[0];
    if (i + 1 < values.size()) values[i + 1] = range * pair[1];
  }
  return values;
}

double draw_log_uniform(Xoshiro256& random, double lo, double hi) {
  double u = 0;
  while (u <= 0) u = lo + (hi - lo) * random.uniform();
  return std::log(u);
}

/// The x with softplus(x) = dt.
double draw_time_step(Xoshiro256& random) {
  const double lo = std::log(kMinTimeStep);
  const double hi = std::log(kMaxTimeStep);
  const double dt =
      std::max(std::exp(lo + (hi - lo) * random.uniform()), kTimeStepFloor);
  return dt + std::log(-std::expm1(-dt));
}

}  // namespace

void initialise_parameter(const arch::Parameter& info, double range,
                          std::uint64_t seed, at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  Xoshiro256 random(derive_seed(seed, xxh3_64(info.name)));
  const std::int64_t n = tensor.numel();
  std::vector<double> values;
  switch (info.init) {
    case arch::Init::kOnes:
      tensor.fill_(1.0);
      return;
    case arch::Init::kZeros:
      tensor.fill_(0.0);
      return;
    case arch::Init::kConstant:
      tensor.fill_(info.value);
      return;
    case arch::Init::kNormal:
      values = draw_normal(random, n, range);
      break;
    case arch::Init::kLogUniform:
      for (std::int64_t i = 0; i < n; ++i) {
        values.push_back(draw_log_uniform(random, info.value, info.value2));
      }
      break;
    case arch::Init::kTimeStep:
      for (std::int64_t i = 0; i < n; ++i) {
        values.push_back(draw_time_step(random));
      }
      break;
  }
  tensor.copy_(at::from_blob(values.data(), tensor.sizes(), at::kDouble));
}

}  // namespace osdn::model
