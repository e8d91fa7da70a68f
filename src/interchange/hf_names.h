#pragma once
// Names of tensors in the public files. Those of flash-linear-attention are
// ours; transformers' Llama has others for the same tensors.

#include <string>

#include "osdn/config/config.h"

namespace osdn::interchange {

/// The name in a public file of the parameter that arch::parameter_table calls
/// `name`.
std::string name_in_files(const config::ModelConfig& model,
                          const std::string& name);

}  // namespace osdn::interchange
