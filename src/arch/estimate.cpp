#include "osdn/arch/estimate.h"

#include "osdn/arch/parameter_table.h"
#include "widths.h"

namespace osdn::arch {

using config::LayerKind;
using config::ModelConfig;

Flops flops_per_token(const ModelConfig& model, std::int64_t document) {
  double matrices = 0;
  for (const Parameter& parameter : parameter_table(model)) {
    const bool multiplies = parameter.shape.size() == 2 &&
                            parameter.part != Part::kEmbedding &&
                            !parameter.name.ends_with("initial_scale");
    // A tied head is the embedding, used a second time as a matrix.
    const bool tied_head =
        parameter.part == Part::kEmbedding && model.tie_word_embeddings;
    if (multiplies || tied_head) {
      matrices += static_cast<double>(parameter.numel());
    }
  }
  const Widths w(model);
  const bool decays = model.layer != LayerKind::kDeltaNet;

  Flops flops;
  flops.matrices = 6 * matrices;
  flops.recurrence = 3 * w.layers * (decays ? 7 : 6) * w.hv * w.k * w.v;
  if (model.use_short_conv) {
    flops.convolution = 3 * w.layers * 2 *
                        static_cast<double>(model.conv_size) *
                        (2 * w.kd + w.vd);
  }
  if (model.preconditioner.enabled) {
    flops.preconditioner = 3 * w.layers * 8 * w.hv * w.k;
  }
  flops.softmax = 3 * w.softmax_layers * 2 * w.heads * w.head_dim *
                  (static_cast<double>(document) + 1);
  return flops;
}

std::string flops_formula() {
  return "3 (2 M + L (6 HV K V + HV K V if gated + 2 W (2 kd + vd) + 8 HV K if "
         "preconditioned) + S 2 H D (C + 1)), M = weights of matrices and "
         "head, "
         "L layers with the delta rule, S with softmax over documents of C";
}

}  // namespace osdn::arch
