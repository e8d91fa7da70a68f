#pragma once
// Weights in the names and shapes of layers.md 7, from and to the public
// models. Reading is strict: every missing, extra, mis-shaped or non-finite
// tensor is named in one Error (ExitCode::kBadInput).

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "osdn/checkpoint/safetensors.h"
#include "osdn/checkpoint/weight_files.h"
#include "osdn/config/config.h"
#include "osdn/core/tensor_view.h"
#include "osdn/interchange/hf_config.h"

namespace osdn::interchange {

/// Tensors of which some are views of files, which must stay open, and some
/// are held here.
class TensorSet {
 public:
  const std::vector<TensorView>& views() const { return views_; }
  void add(TensorView view) { views_.push_back(std::move(view)); }
  void add(TensorView view, std::vector<std::byte> bytes);

 private:
  std::vector<TensorView> views_;
  std::vector<std::unique_ptr<std::vector<std::byte>>> held_;
};

/// A model's parameters in the order of arch::parameter_table, from files of a
/// public model:
///   * a tied model may repeat the embedding as lm_head.weight (trap 2);
///   * KDA's gates of one row a key head are repeated over the value heads of
///     its group (trap 9);
///   * osgm_gamma_log beside a constant retention replaces it, unless it holds
///     the same number: `imported.model` is changed then, with a warning.
/// With `dtype`, the tensors are converted to it; else they stay as they are,
/// any of F64, F32, F16, BF16.
TensorSet import_weights(const checkpoint::WeightFiles& files,
                         ImportedConfig& imported, std::optional<DType> dtype);

/// A model's parameters as the public model of hf_model_type has them, in
/// `dtype`; A_log, dt_bias, initial_scale, osgm_gamma_log and the bias of the
/// APF gate stay F32 (trap 3). `weights` has the names of parameter_table.
/// Throws Error (kUsage) for a grouped KDA whose gates differ inside a group,
/// which the public os_kda cannot express.
TensorSet export_weights(const checkpoint::WeightFiles& weights,
                         const config::ModelConfig& model, DType dtype);

/// model.safetensors in `folder`, or with `shard_bytes` > 0 as many files of at
/// most that size as it takes (a larger tensor has one of its own) and
/// model.safetensors.index.json. Opens all again and compares every byte.
/// Returns the written files' names in order.
std::vector<std::string> write_weights(const std::filesystem::path& folder,
                                       const TensorSet& weights,
                                       std::uint64_t shard_bytes);

}  // namespace osdn::interchange
