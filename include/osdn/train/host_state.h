#pragma once
// Weights and moments in host memory, a copy of its own, as they go into the
// files of a checkpoint: all of them, or the share of one rank of several.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "osdn/checkpoint/checkpoint_store.h"
#include "osdn/model/language_model.h"
#include "osdn/optim/adamw.h"

namespace osdn::train {

class HostState {
 public:
  /// Rank `rank` of `ranks` takes the tensors that `owner` (by parameter, in
  /// table order) gives it.
  HostState(const model::LanguageModel& model, int rank, int ranks);

  /// Does this rank write that parameter and its moments?
  bool owns(std::size_t parameter) const { return owner_[parameter] == rank_; }
  /// Copies; values in any shape, on any device.
  void add_weight(std::size_t parameter, const at::Tensor& values);
  void add_moments(std::size_t parameter, const at::Tensor& exp_avg,
                   const at::Tensor& exp_avg_sq);

  /// The files of this rank.
  std::vector<checkpoint::TensorPart> parts() const;
  /// The index files that join those of several ranks; none for one rank.
  std::vector<checkpoint::TextPart> indices() const;

 private:
  struct Parameter {
    std::string name;
    std::vector<std::int64_t> shape;
  };
  void add(checkpoint::TensorPart& part, const std::string& name,
           const Parameter& parameter, const at::Tensor& values);
  std::string file_of(std::string_view stem, int rank) const;
  checkpoint::TextPart index(std::string_view stem,
                             const std::vector<std::string>& suffixes) const;

  int rank_;
  int ranks_;
  std::size_t element_size_;
  std::vector<Parameter> parameters_;
  std::vector<int> owner_;
  std::vector<at::Tensor> kept_;
  checkpoint::TensorPart weights_;
  checkpoint::TensorPart moments_;
};

/// All of a run that has no other ranks.
HostState whole_host_state(const model::LanguageModel& model,
                           const optim::AdamW& adamw);

}  // namespace osdn::train
