#include "presets.h"

namespace osdn::config {

PreconditionerConfig preset_values(const ModelConfig& model) {
  PreconditionerConfig values = model.preconditioner;
  const PreconditionerConfig paper;
  values.eta = paper.eta;
  values.d_min = paper.d_min;
  values.d_max = paper.d_max;
  values.beta_aware = paper.beta_aware;
  values.norm = paper.norm;
  values.d0_init = paper.d0_init;
  values.detach = paper.detach;
  if (values.preset != "published-runs") {
    return values;
  }
  values.norm = KeyNorm::kOff;
  if (model.layer == LayerKind::kDeltaNet) {
    values.eta = 1.0;
    values.d_min = 0.0;
    values.d_max = 1e9;
    values.beta_aware = false;
    values.d0_init = 0.0;
    return values;
  }
  values.d_min = 2.0 / 3.0;
  values.d_max = 1.5;
  if (model.layer == LayerKind::kKda && values.retention == Retention::kNone) {
    values.eta = 0.01;
    values.d_min = 0.0;
    values.d_max = 1.2;
    values.detach = true;
  }
  return values;
}

void apply_preset(ModelConfig& model,
                  const std::function<bool(std::string_view)>& named) {
  const PreconditionerConfig values = preset_values(model);
  PreconditionerConfig& target = model.preconditioner;
  const auto fill = [&named](std::string_view path, auto& member,
                             const auto& value) {
    if (!named(path)) {
      member = value;
    }
  };
  fill("model.preconditioner.eta", target.eta, values.eta);
  fill("model.preconditioner.d_min", target.d_min, values.d_min);
  fill("model.preconditioner.d_max", target.d_max, values.d_max);
  fill("model.preconditioner.beta_aware", target.beta_aware, values.beta_aware);
  fill("model.preconditioner.norm", target.norm, values.norm);
  fill("model.preconditioner.d0_init", target.d0_init, values.d0_init);
  fill("model.preconditioner.detach", target.detach, values.detach);
}

}  // namespace osdn::config
