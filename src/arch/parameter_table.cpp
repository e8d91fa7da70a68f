#include "osdn/arch/parameter_table.h"

#include <utility>

#include "osdn/core/concat.h"

namespace osdn::arch {

namespace {

using config::LayerKind;
using config::ModelConfig;
using config::Retention;

// Collects the parameters of one model; the widths are those of layers.md.
class TableBuilder {
 public:
  explicit TableBuilder(const ModelConfig& model)
      : model_(model),
        h_(model.hidden_size),
        hv_(model.value_heads()),
        k_(model.key_width()),
        v_(model.value_width()),
        kd_(model.num_heads * k_),
        vd_(hv_ * v_) {}

  std::vector<Parameter> build() {
    Parameter embedding = matrix("model.embeddings.weight",
                                 {model_.vocab_size, h_}, Part::kEmbedding);
    embedding.decay = Decay::kOptional;
    add(std::move(embedding));
    for (std::int64_t layer = 0; layer < model_.num_layers; ++layer) {
      add_block(concat("model.layers.", layer, "."), model_.is_softmax(layer));
    }
    add(norm("model.norm.weight", h_));
    if (!model_.tie_word_embeddings) {
      add(matrix("lm_head.weight", {model_.vocab_size, h_}, Part::kHead));
    }
    return std::move(table_);
  }

 private:
  static Parameter matrix(std::string name, std::vector<std::int64_t> shape,
                          Part part = Part::kAttention) {
    return {.name = std::move(name), .shape = std::move(shape), .part = part};
  }

  static Parameter norm(std::string name, std::int64_t width) {
    return {.name = std::move(name),
            .shape = {width},
            .part = Part::kNorm,
            .init = Init::kOnes,
            .decay = Decay::kOptional,
            .keep_fp32 = true};
  }

  void add(Parameter parameter) { table_.push_back(std::move(parameter)); }

  void add_block(const std::string& prefix, bool softmax) {
    add(norm(prefix + "attn_norm.weight", h_));
    if (softmax) {
      add_softmax(prefix + "attn.");
    } else {
      add_delta_rule(prefix + "attn.");
    }
    add(norm(prefix + "mlp_norm.weight", h_));
    const std::int64_t i = model_.mlp_width();
    add(matrix(prefix + "mlp.gate_proj.weight", {i, h_}, Part::kMlp));
    add(matrix(prefix + "mlp.up_proj.weight", {i, h_}, Part::kMlp));
    add(matrix(prefix + "mlp.down_proj.weight", {h_, i}, Part::kMlp));
  }

  void add_softmax(const std::string& prefix) {
    const std::int64_t width =
        model_.softmax_heads() * model_.softmax_head_dim();
    const std::int64_t kv_width =
        model_.softmax_kv_heads() * model_.softmax_head_dim();
    add(matrix(prefix + "q_proj.weight", {width, h_}));
    add(matrix(prefix + "k_proj.weight", {kv_width, h_}));
    add(matrix(prefix + "v_proj.weight", {kv_width, h_}));
    add(matrix(prefix + "o_proj.weight", {h_, width}));
  }

  void add_delta_rule(const std::string& prefix) {
    add(matrix(prefix + "q_proj.weight", {kd_, h_}));
    add(matrix(prefix + "k_proj.weight", {kd_, h_}));
    add(matrix(prefix + "v_proj.weight", {vd_, h_}));
    if (model_.layer != LayerKind::kDeltaNet || model_.use_beta) {
      add(matrix(prefix + "b_proj.weight", {hv_, h_}));
    }
    if (model_.use_short_conv) {
      add(convolution(prefix + "q_conv1d.weight", kd_));
      add(convolution(prefix + "k_conv1d.weight", kd_));
      add(convolution(prefix + "v_conv1d.weight", vd_));
    }
    add_decay(prefix);
    add_output_gate(prefix);
    add_preconditioner(prefix);
    add(norm(prefix + "o_norm.weight", v_));
    add(matrix(prefix + "o_proj.weight", {h_, vd_}));
  }

  Parameter convolution(std::string name, std::int64_t channels) const {
    return {.name = std::move(name),
            .shape = {channels, 1, model_.conv_size},
            .part = Part::kConvolution,
            .decay = Decay::kOptional};
  }

  // The forget gate: layers.md 4 (per value head) and 5 (per key channel).
  void add_decay(const std::string& prefix) {
    if (model_.layer == LayerKind::kDeltaNet) {
      return;
    }
    const bool per_channel = model_.layer == LayerKind::kKda;
    if (per_channel) {
      add(matrix(prefix + "f_proj.0.weight", {v_, h_}));
      add(matrix(prefix + "f_proj.1.weight", {hv_ * k_, v_}));
    } else {
      add(matrix(prefix + "a_proj.weight", {hv_, h_}));
    }
    Parameter a_log{.name = prefix + "A_log",
                    .shape = {hv_},
                    .part = Part::kAttention,
                    .init = Init::kLogUniform,
                    .value = per_channel ? 1.0 : 0.0,
                    .value2 = 16.0,
                    .decay = Decay::kOptional,
                    .keep_fp32 = true};
    if (model_.safe_gate) {
      a_log.init = Init::kZeros;
      a_log.value = a_log.value2 = 0;
    }
    add(std::move(a_log));
    add({.name = prefix + "dt_bias",
         .shape = {per_channel ? hv_ * k_ : hv_},
         .part = Part::kAttention,
         .init = Init::kTimeStep,
         .value = 0.001,
         .value2 = 0.1,
         .decay = Decay::kOptional,
         .keep_fp32 = true});
  }

  void add_output_gate(const std::string& prefix) {
    if (model_.layer == LayerKind::kKda) {
      add(matrix(prefix + "g_proj.0.weight", {v_, h_}));
      add(matrix(prefix + "g_proj.1.weight", {vd_, v_}));
      add({.name = prefix + "g_proj.1.bias",
           .shape = {vd_},
           .part = Part::kAttention,
           .init = Init::kZeros,
           .decay = Decay::kOptional});
    } else if (model_.output_gate()) {
      add(matrix(prefix + "g_proj.weight", {vd_, h_}));
    }
  }

  // layers.md 6. Weight decay would pull d0 and the retention towards zero.
  void add_preconditioner(const std::string& prefix) {
    const config::PreconditionerConfig& preconditioner = model_.preconditioner;
    if (!preconditioner.enabled) {
      return;
    }
    add({.name = prefix + "initial_scale",
         .shape = {hv_, k_},
         .part = Part::kPreconditioner,
         .init = Init::kConstant,
         .value = preconditioner.d0_init,
         .decay = Decay::kNever,
         .keep_fp32 = true});
    if (preconditioner.retention == Retention::kDataDependent) {
      add({.name = prefix + "osgm_a_proj.weight",
           .shape = {hv_, h_},
           .part = Part::kPreconditioner,
           .init = Init::kZeros,
           .decay = Decay::kNever});
      add({.name = prefix + "osgm_a_proj.bias",
           .shape = {hv_},
           .part = Part::kPreconditioner,
           .init = Init::kConstant,
           .value = preconditioner.retention_bias,
           .decay = Decay::kNever,
           .keep_fp32 = true});
    } else if (preconditioner.retention == Retention::kPerHead) {
      add({.name = prefix + "osgm_gamma_log",
           .shape = {hv_},
           .part = Part::kPreconditioner,
           .init = Init::kConstant,
           .value = preconditioner.retention_bias,
           .decay = Decay::kNever,
           .keep_fp32 = true});
    }
  }

  const ModelConfig& model_;
  std::int64_t h_;
  std::int64_t hv_;
  std::int64_t k_;
  std::int64_t v_;
  std::int64_t kd_;
  std::int64_t vd_;
  std::vector<Parameter> table_;
};

}  // namespace

std::string_view name_of(Part part) {
  switch (part) {
    case Part::kEmbedding:
      return "embedding";
    case Part::kAttention:
      return "attention";
    case Part::kConvolution:
      return "convolution";
    case Part::kPreconditioner:
      return "preconditioner";
    case Part::kMlp:
      return "mlp";
    case Part::kNorm:
      return "norm";
    case Part::kHead:
      return "head";
  }
  return "";
}

std::int64_t Parameter::numel() const {
  std::int64_t product = 1;
  for (const std::int64_t size : shape) {
    product *= size;
  }
  return product;
}

std::vector<Parameter> parameter_table(const ModelConfig& model) {
  return TableBuilder(model).build();
}

std::int64_t multiplied_elements(const Parameter& parameter) {
  const bool multiplies =
      parameter.shape.size() == 2 && parameter.part != Part::kEmbedding;
  return multiplies ? parameter.numel() : 0;
}

bool computes_in_fp32(const Parameter& parameter) {
  return parameter.keep_fp32 || parameter.part == Part::kConvolution;
}

bool is_decayed(const Parameter& parameter, bool decay_exempt) {
  return parameter.decay == Decay::kAlways ||
         (parameter.decay == Decay::kOptional && !decay_exempt);
}

Counts count_parameters(const std::vector<Parameter>& table) {
  Counts counts;
  for (const Parameter& parameter : table) {
    counts.by_part[static_cast<std::size_t>(parameter.part)] +=
        parameter.numel();
    counts.total += parameter.numel();
  }
  return counts;
}

}  // namespace osdn::arch
