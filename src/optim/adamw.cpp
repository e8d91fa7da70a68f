#include "osdn/optim/adamw.h"

#include <ATen/Parallel.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <utility>

#include "adamw_cpu.h"
#include "osdn/core/concat.h"
#include "osdn/core/error.h"

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

DType dtype_of(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kDouble ? DType::kF64 : DType::kF32;
}

TensorView view_of(std::string name, const at::Tensor& tensor) {
  return {std::move(name), dtype_of(tensor), tensor.sizes().vec(),
          tensor.data_ptr()};
}

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
  for (OptimizedTensor& parameter : parameters) {
    const at::Tensor& tensor = parameter.tensor;
    if ((tensor.scalar_type() != at::kFloat &&
         tensor.scalar_type() != at::kDouble) ||
        !tensor.is_contiguous()) {
      throw Error(concat("parameter ", parameter.name,
                         " cannot be optimised: it must be float32 or float64 "
                         "and contiguous"));
    }
    const at::Tensor values = tensor.detach();
    slots_.push_back(
        {std::move(parameter), at::zeros_like(values), at::zeros_like(values)});
  }
}

void AdamW::step(double lr, double grad_scale) {
  const double beta1_product = counters_.beta1_product * options_.beta1;
  const double beta2_product = counters_.beta2_product * options_.beta2;
  const double c1 = 1 - beta1_product;
  const double c2 = 1 - beta2_product;

  std::vector<at::Tensor> gradients;
  std::vector<Block> blocks;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const OptimizedTensor& parameter = slots_[i].parameter;
    if (!parameter.tensor.device().is_cpu()) {
      throw Error(concat("parameter ", parameter.name,
                         " is not in CPU memory; AdamW updates on the CPU"));
    }
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
  at::parallel_for(
      0, static_cast<std::int64_t>(blocks.size()), 1,
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
  counters_.updates += 1;
  counters_.beta1_product = beta1_product;
  counters_.beta2_product = beta2_product;
}

std::vector<TensorView> AdamW::state_views() const {
  std::vector<TensorView> views;
  views.reserve(2 * slots_.size());
  for (const Slot& slot : slots_) {
    views.push_back(view_of(slot.parameter.name + ".exp_avg", slot.exp_avg));
    views.push_back(
        view_of(slot.parameter.name + ".exp_avg_sq", slot.exp_avg_sq));
  }
  return views;
}

void AdamW::load_state(std::span<const TensorView> state,
                       const AdamWCounters& counters) {
  std::map<std::string, const TensorView*> given;
  for (const TensorView& view : state) {
    given[view.name] = &view;
  }
  std::string problems;
  const std::vector<TensorView> own = state_views();
  std::vector<const TensorView*> sources;
  for (const TensorView& want : own) {
    const auto found = given.find(want.name);
    if (found == given.end()) {
      problems += concat("\n  ", want.name, " is missing");
      continue;
    }
    const TensorView& got = *found->second;
    if (got.dtype != want.dtype || got.shape != want.shape) {
      problems += concat("\n  ", want.name, " is ", describe(got), ", not ",
                         describe(want));
    }
    sources.push_back(&got);
    given.erase(found);
  }
  for (const auto& [name, view] : given) {
    problems += concat("\n  ", name, " belongs to no parameter");
  }
  if (!problems.empty()) {
    throw Error("the optimizer state does not fit the model:" + problems,
                ExitCode::kBadInput);
  }
  for (std::size_t i = 0; i < own.size(); ++i) {
    std::memcpy(own[i].data, sources[i]->data, own[i].bytes());
  }
  counters_ = counters;
}

}  // namespace osdn::optim
