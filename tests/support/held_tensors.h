#pragma once
// The weights of a model and the moments of an optimizer, by name, as
// checkpoints name them.

#include <string>
#include <vector>

#include "osdn/model/language_model.h"
#include "osdn/ops/host_tensors.h"
#include "osdn/optim/adamw.h"

namespace osdn::test {

inline ops::HostTensors weights_of(const model::LanguageModel& model) {
  ops::HostTensors out;
  for (const model::ModelParameter& p : model.parameters()) {
    out.add(p.info.name, p.master);
  }
  return out;
}

/// `names`: of the optimized tensors, in their order.
inline ops::HostTensors moments_of(const optim::AdamW& adamw,
                                   const std::vector<std::string>& names) {
  ops::HostTensors out;
  for (std::size_t i = 0; i < names.size(); ++i) {
    out.add(names[i] + ".exp_avg", adamw.exp_avg(i));
    out.add(names[i] + ".exp_avg_sq", adamw.exp_avg_sq(i));
  }
  return out;
}

}  // namespace osdn::test
