#include "osdn/optim/adamw.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "adamw_cpu.h"
#include "adamw_cuda.h"
#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/ops/host_tensors.h"
#include "osdn/ops/threads.h"
#include "osdn/optim/grad_norm.h"

namespace osdn::optim {

namespace {

// Parameters are cut into blocks of this many elements whatever the number of
// threads, so that vector bodies and tails fall on the same elements.
constexpr std::int64_t kBlock = 1 << 15;

struct Block {
  std::size_t slot;
  std::int64_t begin;
  std::int64_t count;
};

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += concat(i == 0 ? "" : ", ", shape[i]);
  }
  return text + "]";
}

std::string describe(const TensorView& view) {
  return concat(name_of(view.dtype), " ", shape_text(view.shape));
}

}  // namespace

AdamW::AdamW(std::vector<OptimizedTensor> parameters,
             const config::OptimizerConfig& options)
    : options_(options) {
  slots_.reserve(parameters.size());
  for (const OptimizedTensor& parameter : parameters) {
    Slot slot{parameter, parameter.exp_avg, parameter.exp_avg_sq};
    const at::Tensor values = slot.master().detach();
    if ((values.scalar_type() != at::kFloat &&
         values.scalar_type() != at::kDouble) ||
        !values.is_contiguous() || !slot.parameter.tensor.is_contiguous()) {
      throw Error(concat("parameter ", slot.parameter.name,
                         " cannot be optimised: it must be float32 or float64 "
                         "and contiguous, or have such a master"));
    }
    if (!slot.exp_avg.defined()) {
      slot.exp_avg = at::zeros_like(values);
      slot.exp_avg_sq = at::zeros_like(values);
    }
    slots_.push_back(std::move(slot));
  }
}

bool AdamW::on_gpu() const {
  return !slots_.empty() && slots_.front().exp_avg.is_cuda();
}

double AdamW::gradient_norm() const {
  if (on_gpu()) return global_norm_cuda(device_slots());
  std::vector<at::Tensor> gradients;
  gradients.reserve(slots_.size());
  for (const Slot& slot : slots_) {
    gradients.push_back(slot.parameter.tensor.grad());
  }
  return global_norm(gradients);
}

std::vector<DeviceSlot> AdamW::device_slots() const {
  std::vector<DeviceSlot> out;
  out.reserve(slots_.size());
  for (const Slot& slot : slots_) {
    const OptimizedTensor& p = slot.parameter;
    if (p.tensor.numel() == 0) continue;
    out.push_back({slot.master(), slot.exp_avg, slot.exp_avg_sq,
                   p.tensor.grad(),
                   p.master.defined() ? p.tensor : at::Tensor(),
                   p.decayed ? options_.weight_decay : 0.0});
  }
  return out;
}

void AdamW::step(double lr, double grad_scale) {
  const double beta1_product = counters_.beta1_product * options_.beta1;
  const double beta2_product = counters_.beta2_product * options_.beta2;
  const double c1 = 1 - beta1_product;
  const double c2 = 1 - beta2_product;
  if (on_gpu()) {
    adamw_cuda(device_slots(), {lr, c1, c2, options_.beta1, options_.beta2,
                                options_.eps, grad_scale});
  } else {
    step_on_cpu(lr, c1, c2, grad_scale);
  }
  counters_.updates += 1;
  counters_.beta1_product = beta1_product;
  counters_.beta2_product = beta2_product;
}

void AdamW::step_on_cpu(double lr, double c1, double c2, double grad_scale) {
  std::vector<at::Tensor> gradients;
  std::vector<Block> blocks;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const OptimizedTensor& parameter = slots_[i].parameter;
    const at::Tensor& gradient = parameter.tensor.grad();
    gradients.push_back(gradient.defined() ? gradient.contiguous() : gradient);
    const std::int64_t numel = parameter.tensor.numel();
    for (std::int64_t begin = 0; begin < numel; begin += kBlock) {
      blocks.push_back({i, begin, std::min(kBlock, numel - begin)});
    }
  }

  const auto update = [&]<typename T>(const Block& block, T /*type*/) {
    const Slot& slot = slots_[block.slot];
    const double decay =
        slot.parameter.decayed ? lr * options_.weight_decay : 0.0;
    const AdamWScalars<T> scalars = {static_cast<T>(grad_scale),
                                     static_cast<T>(options_.beta1),
                                     static_cast<T>(1 - options_.beta1),
                                     static_cast<T>(options_.beta2),
                                     static_cast<T>(1 - options_.beta2),
                                     static_cast<T>(decay),
                                     static_cast<T>(lr / c1),
                                     static_cast<T>(1 / std::sqrt(c2)),
                                     static_cast<T>(options_.eps)};
    const auto at_begin = [&](const at::Tensor& tensor) {
      return static_cast<T*>(tensor.data_ptr()) + block.begin;
    };
    const at::Tensor& gradient = gradients[block.slot];
    adamw_update<T>(scalars, block.count,
                    gradient.defined() ? at_begin(gradient) : nullptr,
                    at_begin(slot.parameter.tensor), at_begin(slot.exp_avg),
                    at_begin(slot.exp_avg_sq));
  };
  ops::parallel_for(
      static_cast<std::int64_t>(blocks.size()),
      [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t i = first; i < last; ++i) {
          const Block& block = blocks[static_cast<std::size_t>(i)];
          if (slots_[block.slot].exp_avg.scalar_type() == at::kDouble) {
            update(block, double());
          } else {
            update(block, float());
          }
        }
      });
}

void AdamW::load_state(std::span<const TensorView> state,
                       const AdamWCounters& counters) {
  std::map<std::string, const TensorView*> given;
  for (const TensorView& view : state) {
    given[view.name] = &view;
  }
  std::string problems;
  struct Move {
    at::Tensor into;
    const TensorView* from;
    std::int64_t begin;
  };
  std::vector<Move> moves;
  const auto take = [&](const std::string& name, const OptimizedTensor& part,
                        const at::Tensor& into) {
    const auto found = given.find(name);
    if (found == given.end()) {
      problems += concat("\n  ", name, " is missing");
      return;
    }
    const TensorView& got = *found->second;
    const TensorView want{name, ops::dtype_of(into.scalar_type()),
                          part.whole.empty() ? into.sizes().vec() : part.whole,
                          nullptr};
    if (got.dtype != want.dtype || got.shape != want.shape) {
      problems +=
          concat("\n  ", name, " is ", describe(got), ", not ", describe(want));
    }
    moves.push_back({into, &got, part.begin});
    given.erase(found);
  };
  for (const Slot& slot : slots_) {
    const OptimizedTensor& p = slot.parameter;
    take(p.name + ".exp_avg", p, slot.exp_avg);
    take(p.name + ".exp_avg_sq", p, slot.exp_avg_sq);
  }
  for (const auto& [name, view] : given) {
    problems += concat("\n  ", name, " belongs to no parameter");
  }
  if (!problems.empty()) {
    throw Error("the optimizer state does not fit the model:" + problems,
                ExitCode::kBadInput);
  }
  for (const Move& move : moves) {
    const at::Tensor whole = at::from_blob(
        move.from->data, {move.from->numel()}, move.into.scalar_type());
    move.into.copy_(
        whole.narrow(0, move.begin, move.into.numel()).view(move.into.sizes()));
  }
  counters_ = counters;
}

}  // namespace osdn::optim
