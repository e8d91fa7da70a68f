#include "osdn/train/build.h"

#include "osdn/arch/parameter_table.h"
#include "osdn/core/log.h"

namespace osdn::train {

model::LanguageModel make_model(const config::Config& config,
                                const ComputeChoice& compute) {
  model::LanguageModel model(config.model, compute.compute.dtype,
                             compute.compute.device);
  model.set_recompute(config.training.recompute);
  return model;
}

void log_decay_groups(const model::LanguageModel& model,
                      const config::OptimizerConfig& options) {
  struct Group {
    std::int64_t tensors = 0;
    std::int64_t elements = 0;
  };
  Group groups[2];
  for (const model::ModelParameter& parameter : model.parameters()) {
    const bool decayed = arch::is_decayed(parameter.info, options.decay_exempt);
    groups[decayed].tensors += 1;
    groups[decayed].elements += parameter.info.numel();
    log::debug(decayed ? "decayed: " : "not decayed: ", parameter.info.name);
  }
  log::info("parameters: ", groups[0].elements + groups[1].elements,
            "; weight decay ", options.weight_decay, " on ", groups[1].elements,
            " in ", groups[1].tensors, " tensors, none on ", groups[0].elements,
            " in ", groups[0].tensors, " tensors");
}

std::vector<optim::OptimizedTensor> optimized_tensors(
    const model::LanguageModel& model, const config::OptimizerConfig& options) {
  log_decay_groups(model, options);
  std::vector<optim::OptimizedTensor> out;
  for (const model::ModelParameter& parameter : model.parameters()) {
    const bool own_master = parameter.master.is_same(parameter.tensor);
    out.push_back({parameter.info.name, parameter.tensor,
                   arch::is_decayed(parameter.info, options.decay_exempt),
                   own_master ? at::Tensor() : parameter.master});
  }
  return out;
}

}  // namespace osdn::train
