#include "osdn/arch/estimate.h"

#include <algorithm>

#include "osdn/arch/parameter_table.h"

namespace osdn::arch {

namespace {

using config::LayerKind;
using config::ModelConfig;
using config::Retention;

constexpr double kChunk = 64;  // tokens between two states that are kept

// The widths of layers.md as floating-point numbers: products of them are
// compared with memory sizes, not counted.
struct Widths {
  explicit Widths(const ModelConfig& model)
      : h(static_cast<double>(model.hidden_size)),
        i(static_cast<double>(model.mlp_width())),
        layers(static_cast<double>(model.num_layers - model.softmax_layers())),
        softmax_layers(static_cast<double>(model.softmax_layers())) {
    if (layers > 0) {
      hv = static_cast<double>(model.value_heads());
      k = static_cast<double>(model.key_width());
      v = static_cast<double>(model.value_width());
      kd = static_cast<double>(model.num_heads) * k;
      vd = hv * v;
    }
    if (softmax_layers > 0) {
      heads = static_cast<double>(model.softmax_heads());
      kv_heads = static_cast<double>(model.softmax_kv_heads());
      head_dim = static_cast<double>(model.softmax_head_dim());
    }
  }

  double h;
  double i;
  double layers;  // with the delta rule
  double softmax_layers;
  double hv = 0;
  double k = 0;
  double v = 0;
  double kd = 0;
  double vd = 0;
  double heads = 0;  // of the softmax
  double kv_heads = 0;
  double head_dim = 0;
};

bool has_retention_gate(const ModelConfig& model) {
  return model.preconditioner.enabled &&
         model.preconditioner.retention == Retention::kDataDependent;
}

// A of a softmax layer.
double softmax_per_token(const Widths& w) {
  return 4 * w.h + (2 * (w.heads + w.kv_heads) + w.kv_heads) * w.head_dim +
         (w.heads > w.kv_heads ? 2 * w.heads * w.head_dim : 0) + w.head_dim +
         w.heads * w.head_dim + 4 * w.i;
}

// A and F of a layer with the delta rule.
double computed_per_token(const ModelConfig& model, const Widths& w) {
  return 4 * w.h + 4 * (2 * w.kd + w.vd) +
         (model.preconditioner.enabled ? w.hv * w.k : 0) +
         w.vd * (model.output_gate() ? 4 : 2) + 4 * w.i;
}

double masters_per_token(const ModelConfig& model, const Widths& w) {
  double kept = w.hv + w.hv * w.k * w.v / kChunk;
  if (model.layer == LayerKind::kGdn) {
    kept += w.hv;
  } else if (model.layer == LayerKind::kKda) {
    kept += w.hv * w.k;
  }
  if (model.preconditioner.enabled) {
    kept += w.hv * w.k;
  }
  if (has_retention_gate(model)) {
    kept += w.hv;
  }
  return kept;
}

}  // namespace

std::string name_of(Compute compute) {
  switch (compute) {
    case Compute::kF32:
      return "fp32";
    case Compute::kF64:
      return "fp64";
    case Compute::kBF16:
      return "bf16";
  }
  return "";
}

namespace {

/// P and P_32.
struct ParameterCounts {
  explicit ParameterCounts(const ModelConfig& model) {
    for (const Parameter& parameter : parameter_table(model)) {
      const auto count = static_cast<double>(parameter.numel());
      all += count;
      fp32 += parameter.keep_fp32 ? count : 0;
    }
  }
  double all = 0;
  double fp32 = 0;
};

}  // namespace

Memory estimate_memory(const ModelConfig& model, Compute compute,
                       std::int64_t tokens, bool recompute) {
  const auto [parameters, fp32_parameters] = ParameterCounts(model);
  const double master = compute == Compute::kF64 ? 8 : 4;
  const double computed = compute == Compute::kBF16 ? 2 : master;
  const Widths w(model);

  Memory memory;
  memory.weights = master * parameters;
  if (compute == Compute::kBF16) {
    memory.weights += 2 * (parameters - fp32_parameters);
  }
  memory.gradients = master * parameters;
  memory.optimizer = 2 * master * parameters;
  const double delta = computed_per_token(model, w) * computed +
                       masters_per_token(model, w) * master;
  const double softmax = softmax_per_token(w) * computed + w.heads * master;
  double blocks = w.layers * delta + w.softmax_layers * softmax;
  if (recompute) {
    blocks =
        (w.layers + w.softmax_layers) * 2 * w.h * computed +
        std::max(w.layers > 0 ? delta : 0, w.softmax_layers > 0 ? softmax : 0);
  }
  memory.activations =
      static_cast<double>(tokens) * (blocks + 2 * w.h * computed);
  return memory;
}

Memory estimate_rank_memory(const ModelConfig& model,
                            const config::DistConfig& dist, Compute compute,
                            std::int64_t tokens, int ranks, bool recompute) {
  const auto [parameters, fp32_parameters] = ParameterCounts(model);
  const double others = parameters - fp32_parameters;
  Memory memory = estimate_memory(model, compute, tokens, recompute);
  const double reduced = compute == Compute::kF64      ? 8
                         : dist.reduce_dtype == "bf16" ? 2
                                                       : 4;
  const double reduced_fp32 = compute == Compute::kBF16 ? 4 : reduced;
  memory.buckets = reduced * others + reduced_fp32 * fp32_parameters;
  if (dist.shard_optimizer) {
    memory.optimizer /= ranks;
    if (compute == Compute::kBF16) {
      memory.weights -= 4 * others * (ranks - 1) / ranks;
    }
  }
  return memory;
}

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
