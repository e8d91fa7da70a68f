#pragma once
// A trained model from its run folder or from one checkpoint of it.

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>

#include "osdn/config/config.h"
#include "osdn/model/language_model.h"

namespace osdn::model {

/// A checkpoint that is sound, and what can be known without its weights.
struct TrainedFolder {
  std::filesystem::path folder;  ///< of the checkpoint
  config::Config config;         ///< as the run was configured
  std::string config_hash;       ///< SHA-256 of the model section, canonical
  std::string weights_hash;      ///< XXH3-64 of the weights file
};

/// `path` is a run folder (its newest sound checkpoint is taken, and newer ones
/// that are damaged are named in a warning) or a checkpoint folder. Throws
/// Error (kBadInput) when it is neither or not sound.
TrainedFolder open_trained_folder(const std::filesystem::path& path);

/// Its model with the weights.
LanguageModel load_model(const TrainedFolder& folder, at::ScalarType dtype,
                         at::Device device);

struct TrainedModel : TrainedFolder {
  LanguageModel model;
};

/// Both at once.
TrainedModel load_trained_model(const std::filesystem::path& path,
                                at::ScalarType dtype, at::Device device);

}  // namespace osdn::model
