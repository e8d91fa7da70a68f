#pragma once
// A model as an evaluation needs it: from a run folder or a checkpoint.

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>

#include "osdn/config/config.h"
#include "osdn/model/language_model.h"

namespace osdn::eval {

struct TrainedModel {
  std::filesystem::path folder;  ///< of the checkpoint
  config::Config config;         ///< as the run was configured
  std::string config_hash;       ///< SHA-256 of the model section, canonical
  std::string weights_hash;      ///< XXH3-64 of the weights file
  model::LanguageModel model;
};

/// `path` is a run folder (its newest sound checkpoint is taken, and newer ones
/// that are damaged are named in a warning) or a checkpoint folder. Throws
/// Error (kBadInput) when it is neither or not sound.
TrainedModel load_trained_model(const std::filesystem::path& path,
                                at::ScalarType dtype, at::Device device);

}  // namespace osdn::eval
