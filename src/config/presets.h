#pragma once
// Presets of the preconditioner (layers.md section 6).

#include <functional>
#include <string_view>

#include "osdn/config/config.h"

namespace osdn::config {

/// What the preset of model.preconditioner sets for the model's layer and
/// retention. Keys outside the table (preset, retention, retention_bias) keep
/// their values.
PreconditionerConfig preset_values(const ModelConfig& model);

/// Copies the preset into every key that `named` (by path) says is not given.
void apply_preset(ModelConfig& model,
                  const std::function<bool(std::string_view)>& named);

}  // namespace osdn::config
