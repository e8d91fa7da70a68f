#pragma once
// What a training step works on, from a configuration.

#include <vector>

#include "osdn/config/config.h"
#include "osdn/model/language_model.h"
#include "osdn/optim/adamw.h"
#include "osdn/train/compute_choice.h"

namespace osdn::train {

/// The configured model, where and in what `compute` says; all zeros.
model::LanguageModel make_model(const config::Config& config,
                                const ComputeChoice& compute);

/// Logs how many parameters decay and how many do not.
void log_decay_groups(const model::LanguageModel& model,
                      const config::OptimizerConfig& options);

/// Its parameters as the optimizer takes them; logs the decay groups.
std::vector<optim::OptimizedTensor> optimized_tensors(
    const model::LanguageModel& model, const config::OptimizerConfig& options);

}  // namespace osdn::train
