#pragma once
// AdamW (Loshchilov and Hutter 2019) with decoupled decay. Update t = 1, 2, ...
// of one element p with gradient g, in this order, in the parameter's dtype:
//
//   m = beta1 m + (1 - beta1) g
//   v = beta2 v + (1 - beta2) g^2
//   p = p - lr wd p - (lr / c1) m / (sqrt(v / c2) + eps)
//
// c1 = 1 - product of beta1 over the updates so far (1 - beta1^t as long as
// beta1 is never changed), c2 likewise: m and v are then weighted means of the
// gradients even when a resume goes on with other betas.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "osdn/config/config.h"
#include "osdn/core/tensor_view.h"
#include "osdn/optim/adamw_counters.h"

namespace osdn::optim {

struct DeviceSlot;

/// A parameter, or a part of one, as the optimizer sees it, contiguous. Its
/// gradient is the tensor's own: of the tensor's dtype, or in fp32.
struct OptimizedTensor {
  std::string name;   ///< of the parameter
  at::Tensor tensor;  ///< computed with: fp32, fp64 or, on a GPU, bf16
  bool decayed = false;
  at::Tensor master{};  ///< fp32, beside a bf16 tensor; else undefined
  /// Moments, in the master's dtype and shape; undefined: the optimizer's own.
  at::Tensor exp_avg{};
  at::Tensor exp_avg_sq{};
  /// Where `tensor` is 1-D and a part of a parameter (none of it, with no
  /// elements): the parameter's shape, and where in it the part begins.
  std::vector<std::int64_t> whole{};
  std::int64_t begin = 0;
};

class AdamW {
 public:
  /// Moments start at zero, in each parameter's dtype and on its device. Throws
  /// Error naming a parameter of another dtype or with gaps in memory.
  AdamW(std::vector<OptimizedTensor> parameters,
        const config::OptimizerConfig& options);

  /// Norm over all gradients (grad_norm.h). On a GPU the host waits for it.
  double gradient_norm() const;

  /// One update with the gradients times `grad_scale` (the clip). An undefined
  /// gradient counts as zero. The same bits for any number of threads. On a GPU
  /// it is only queued.
  void step(double lr, double grad_scale);

  const AdamWCounters& counters() const { return counters_; }

  /// Of the i-th tensor given.
  const at::Tensor& exp_avg(std::size_t i) const { return slots_[i].exp_avg; }
  const at::Tensor& exp_avg_sq(std::size_t i) const {
    return slots_[i].exp_avg_sq;
  }

  /// Takes moments and counters from a checkpoint; `state` holds
  /// "<parameter>.exp_avg" and "<parameter>.exp_avg_sq" of whole parameters.
  /// Throws Error (kBadInput) listing every tensor that is missing, extra, or
  /// of another shape or dtype; nothing is changed then.
  void load_state(std::span<const TensorView> state,
                  const AdamWCounters& counters);

 private:
  struct Slot {
    OptimizedTensor parameter;
    at::Tensor exp_avg;
    at::Tensor exp_avg_sq;

    const at::Tensor& master() const {
      return parameter.master.defined() ? parameter.master : parameter.tensor;
    }
  };
  bool on_gpu() const;
  void step_on_cpu(double lr, double c1, double c2, double grad_scale);
  std::vector<DeviceSlot> device_slots() const;

  std::vector<Slot> slots_;
  config::OptimizerConfig options_;
  AdamWCounters counters_;
};

}  // namespace osdn::optim
