#pragma once
// A model's weights in a safetensors file, names of layers.md 7.

#include <filesystem>

#include "osdn/model/language_model.h"

namespace osdn::model {

/// Copies every tensor of a safetensors file into the model, converting from
/// F64, F32, F16 or BF16. Strict: a missing, extra, mis-shaped or non-finite
/// tensor is one Error that lists them all by name; nothing is changed then.
void load_weights(LanguageModel& model, const std::filesystem::path& file);

}  // namespace osdn::model
