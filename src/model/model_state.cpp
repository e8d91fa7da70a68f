#include "osdn/model/model_state.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <array>
#include <utility>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"

namespace osdn::model {

using layers::AttentionState;

std::span<const StateTensor> state_tensors() {
  static constexpr std::array<StateTensor, 8> kAll = {
      {{"state", &AttentionState::state},
       {"d", &AttentionState::d},
       {"conv_q", &AttentionState::conv_q},
       {"conv_k", &AttentionState::conv_k},
       {"conv_v", &AttentionState::conv_v},
       {"cache_k", &AttentionState::cache_k},
       {"cache_v", &AttentionState::cache_v},
       {"cache_length", &AttentionState::cache_length}}};
  return kAll;
}

namespace {

/// One behind the other; the caches of shorter pasts are filled up with zeros,
/// as a batch of them has it.
at::Tensor join(std::vector<at::Tensor> parts) {
  std::int64_t longest = 0;
  for (const at::Tensor& part : parts) {
    if (part.dim() == 4) longest = std::max(longest, part.size(1));
  }
  for (at::Tensor& part : parts) {
    if (part.dim() == 4 && part.size(1) < longest) {
      part = at::constant_pad_nd(part, {0, 0, 0, 0, 0, longest - part.size(1)});
    }
  }
  return at::cat(parts);
}

/// Leaves of a cache what the longest of its documents fills.
void cut_cache(AttentionState& layer) {
  if (!layer.cache_length.defined() || layer.cache_length.numel() == 0) return;
  const auto longest =
      static_cast<std::int64_t>(layer.cache_length.max().item<double>());
  for (at::Tensor* cache : {&layer.cache_k, &layer.cache_v}) {
    if (cache->size(1) > longest) {
      *cache = cache->narrow(1, 0, longest).contiguous();
    }
  }
}

}  // namespace

ModelState select_documents(const ModelState& state,
                            const std::vector<std::int64_t>& documents) {
  ModelState out;
  out.layers.resize(state.layers.size());
  const at::Tensor rows =
      at::tensor(at::ArrayRef<std::int64_t>(documents), at::kLong);
  for (std::size_t layer = 0; layer < state.layers.size(); ++layer) {
    for (const StateTensor& entry : state_tensors()) {
      const at::Tensor& from = state.layers[layer].*entry.tensor;
      if (!from.defined()) continue;
      out.layers[layer].*entry.tensor =
          from.index_select(0, rows.to(from.device()));
    }
    cut_cache(out.layers[layer]);
  }
  return out;
}

ModelState join_documents(const std::vector<ModelState>& states) {
  if (states.size() == 1) return states.front();
  ModelState out;
  if (states.empty()) return out;
  out.layers.resize(states.front().layers.size());
  for (const ModelState& state : states) {
    if (state.layers.size() != out.layers.size()) {
      throw Error(concat("states of ", out.layers.size(), " and ",
                         state.layers.size(),
                         " layers cannot be joined; documents at their start "
                         "have none"));
    }
  }
  for (std::size_t layer = 0; layer < out.layers.size(); ++layer) {
    for (const StateTensor& entry : state_tensors()) {
      std::vector<at::Tensor> parts;
      for (const ModelState& state : states) {
        const at::Tensor& part = state.layers[layer].*entry.tensor;
        if (part.defined()) parts.push_back(part);
      }
      if (parts.empty()) continue;
      if (parts.size() != states.size()) {
        throw Error(concat("layer ", layer, ": ", parts.size(), " of ",
                           states.size(), " states have a tensor ", entry.name,
                           "; they cannot be joined"));
      }
      out.layers[layer].*entry.tensor = join(std::move(parts));
    }
  }
  return out;
}

ModelState on_device(ModelState state, at::Device device) {
  for (AttentionState& layer : state.layers) {
    for (const StateTensor& entry : state_tensors()) {
      at::Tensor& tensor = layer.*entry.tensor;
      // The cache's lengths are read by the host.
      if (tensor.defined() && entry.tensor != &AttentionState::cache_length) {
        tensor = tensor.to(device);
      }
    }
  }
  return state;
}

}  // namespace osdn::model
