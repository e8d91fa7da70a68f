#include "osdn/train/host_state.h"

#include <ATen/ops/empty.h>

#include "osdn/checkpoint/weight_files.h"
#include "osdn/core/concat.h"
#include "osdn/dist/shard_layout.h"
#include "osdn/ops/host_tensors.h"
#include "osdn/train/run_state.h"

namespace osdn::train {

namespace {

std::vector<int> deal(const std::vector<model::ModelParameter>& parameters,
                      int ranks) {
  std::vector<std::int64_t> sizes;
  sizes.reserve(parameters.size());
  for (const model::ModelParameter& p : parameters) {
    sizes.push_back(p.info.numel());
  }
  return dist::deal_by_size(sizes, ranks);
}

}  // namespace

HostState::HostState(const model::LanguageModel& model, int rank, int ranks)
    : rank_(rank),
      ranks_(ranks),
      element_size_(model.dtype() == at::kDouble ? 8 : 4),
      owner_(deal(model.parameters(), ranks)) {
  for (const model::ModelParameter& p : model.parameters()) {
    parameters_.push_back({p.info.name, p.info.shape});
  }
  weights_.file = file_of(kWeightsStem, rank);
  moments_.file = file_of(kOptimizerStem, rank);
}

void HostState::add(checkpoint::TensorPart& part, const std::string& name,
                    const Parameter& parameter, const at::Tensor& values) {
  at::Tensor copy = at::empty(parameter.shape, values.scalar_type());
  copy.copy_(values.detach().view(parameter.shape));
  part.tensors.push_back({name, ops::dtype_of(copy.scalar_type()),
                          parameter.shape, copy.data_ptr()});
  kept_.push_back(std::move(copy));
}

void HostState::add_weight(std::size_t parameter, const at::Tensor& values) {
  const Parameter& p = parameters_[parameter];
  add(weights_, p.name, p, values);
}

void HostState::add_moments(std::size_t parameter, const at::Tensor& exp_avg,
                            const at::Tensor& exp_avg_sq) {
  const Parameter& p = parameters_[parameter];
  add(moments_, p.name + ".exp_avg", p, exp_avg);
  add(moments_, p.name + ".exp_avg_sq", p, exp_avg_sq);
}

std::vector<checkpoint::TensorPart> HostState::parts() const {
  if (weights_.tensors.empty()) return {};  // more ranks than tensors
  return {weights_, moments_};
}

std::vector<checkpoint::TextPart> HostState::indices() const {
  if (ranks_ == 1) return {};
  return {index(kWeightsStem, {""}),
          index(kOptimizerStem, {".exp_avg", ".exp_avg_sq"})};
}

std::string HostState::file_of(std::string_view stem, int rank) const {
  return ranks_ == 1 ? concat(stem, ".safetensors")
                     : checkpoint::weight_file_name(std::string(stem), rank + 1,
                                                    ranks_);
}

checkpoint::TextPart HostState::index(
    std::string_view stem, const std::vector<std::string>& suffixes) const {
  std::map<std::string, std::string> files;
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    std::int64_t numel = 1;
    for (const std::int64_t size : parameters_[i].shape) numel *= size;
    for (const std::string& suffix : suffixes) {
      files[parameters_[i].name + suffix] = file_of(stem, owner_[i]);
      bytes += numel * static_cast<std::int64_t>(element_size_);
    }
  }
  return {concat(stem, ".safetensors.index.json"),
          checkpoint::weight_index(files, bytes)};
}

HostState whole_host_state(const model::LanguageModel& model,
                           const optim::AdamW& adamw) {
  HostState state(model, 0, 1);
  const auto& parameters = model.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    state.add_weight(i, parameters[i].master);
    state.add_moments(i, adamw.exp_avg(i), adamw.exp_avg_sq(i));
  }
  return state;
}

}  // namespace osdn::train
