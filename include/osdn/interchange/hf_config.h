#pragma once
// config.json of the public Python models, from and to a model configuration:
// keys, defaults and traps of layers.md 7 and 8.
//
// Reading is strict: a value that would make another function than the one that
// osdn computes is an Error (ExitCode::kBadInput) that names the file, the key,
// what was found and what is allowed, all of them together. Keys that change
// speed or bookkeeping only are taken silently; a key that nobody knows is a
// warning.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "osdn/config/config.h"
#include "osdn/core/tensor_view.h"

namespace osdn::interchange {

/// What a config.json says.
struct ImportedConfig {
  config::ModelConfig model;
  /// osgm_gamma_log may stand in the weights for the constant retention that
  /// the configuration names; it then holds the numbers that count.
  bool retention_in_weights = false;
  std::int64_t max_position_embeddings = 2048;
  std::vector<std::string> warnings{};
};

/// `file` stands for the text in messages.
ImportedConfig hf_config_to_model(std::string_view text,
                                  const std::string& file);

/// What a config.json holds beside the model.
struct ExportOptions {
  DType dtype = DType::kF32;  ///< of the weights beside it
  std::int64_t max_position_embeddings = 2048;
  // In place of the model's own; -1: none.
  std::optional<std::int64_t> bos_token_id{};
  std::optional<std::int64_t> eos_token_id{};
  std::optional<std::int64_t> pad_token_id{};
};

/// The model_type that computes exactly this model: a public one where there is
/// one, else "osdn_delta_net", which public code refuses instead of computing
/// something else (trap 5). Throws Error (kUsage) for a model that none of them
/// can express.
std::string hf_model_type(const config::ModelConfig& model);

/// The config.json of the model, keys sorted, every key written out.
std::string model_to_hf_config(const config::ModelConfig& model,
                               const ExportOptions& options);

}  // namespace osdn::interchange
