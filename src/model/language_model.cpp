#include "osdn/model/language_model.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/Parallel.h>

#include "initialise.h"
#include "osdn/core/error.h"
#include "osdn/layers/functions.h"

namespace osdn::model {
namespace {

struct Block {
  at::Tensor attn_norm, mlp_norm;
  at::Tensor gate_proj, up_proj, down_proj;
  layers::Attention attention;
};

Block make_block(const config::ModelConfig& config, std::int64_t layer,
                 const layers::ParameterSource& parameters) {
  const std::string prefix = "model.layers." + std::to_string(layer) + ".";
  const auto get = [&](const char* name) {
    return parameters.get(prefix + name);
  };
  return {get("attn_norm.weight"),
          get("mlp_norm.weight"),
          get("mlp.gate_proj.weight"),
          get("mlp.up_proj.weight"),
          get("mlp.down_proj.weight"),
          layers::Attention(config, layer, parameters)};
}

DType dtype_of(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return DType::kF64;
    case at::kFloat:
      return DType::kF32;
    case at::kHalf:
      return DType::kF16;
    case at::kBFloat16:
      return DType::kBF16;
    default:
      throw Error(std::string("no parameter can be ") + at::toString(type));
  }
}

}  // namespace

struct LanguageModel::Parts {
  config::ModelConfig config;
  at::ScalarType dtype;
  at::Device device;
  std::vector<ModelParameter> parameters;
  at::Tensor embedding, norm, head;
  std::vector<Block> blocks;
  layers::AttentionObserver* observer = nullptr;
};

LanguageModel::LanguageModel(const config::ModelConfig& config,
                             at::ScalarType dtype, at::Device device)
    : parts_(new Parts{config, dtype, device, {}, {}, {}, {}, {}}) {
  layers::ParameterSource source;
  for (arch::Parameter& info : arch::parameter_table(config)) {
    at::Tensor tensor =
        at::zeros(info.shape, at::TensorOptions().dtype(dtype).device(device));
    tensor.set_requires_grad(true);
    source.add(info.name, tensor);
    parts_->parameters.push_back({std::move(info), tensor});
  }
  parts_->embedding = source.get("model.embeddings.weight");
  parts_->norm = source.get("model.norm.weight");
  parts_->head = config.tie_word_embeddings ? parts_->embedding
                                            : source.get("lm_head.weight");
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    parts_->blocks.push_back(make_block(config, layer, source));
  }
}

LanguageModel::~LanguageModel() = default;
LanguageModel::LanguageModel(LanguageModel&&) noexcept = default;
LanguageModel& LanguageModel::operator=(LanguageModel&&) noexcept = default;

void LanguageModel::initialise(std::uint64_t seed) {
  auto& parameters = parts_->parameters;
  at::parallel_for(
      0, static_cast<std::int64_t>(parameters.size()), 1,
      [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t i = first; i < last; ++i) {
          ModelParameter& p = parameters[static_cast<std::size_t>(i)];
          initialise_parameter(p.info, parts_->config.initializer_range, seed,
                               p.tensor);
        }
      });
}

const config::ModelConfig& LanguageModel::config() const {
  return parts_->config;
}
at::ScalarType LanguageModel::dtype() const {
  return parts_->dtype;
}
at::Device LanguageModel::device() const {
  return parts_->device;
}
const std::vector<ModelParameter>& LanguageModel::parameters() const {
  return parts_->parameters;
}

std::vector<TensorView> LanguageModel::parameter_views() const {
  std::vector<TensorView> views;
  for (const ModelParameter& p : parts_->parameters) {
    views.push_back({p.info.name, dtype_of(p.tensor.scalar_type()),
                     p.info.shape, p.tensor.data_ptr()});
  }
  return views;
}

at::Tensor LanguageModel::hidden(const at::Tensor& tokens,
                                 const ops::Documents& documents,
                                 ModelState* state) const {
  if (tokens.scalar_type() != at::kLong || tokens.dim() != 1 ||
      tokens.size(0) != documents.tokens()) {
    throw Error("model: tokens must be int64 [" +
                std::to_string(documents.tokens()) + "], as cu_seqlens says");
  }
  if (state && state->layers.empty()) {
    state->layers.resize(parts_->blocks.size());
  }
  const double eps = parts_->config.norm_eps;
  at::Tensor x = at::embedding(parts_->embedding, tokens);
  for (std::size_t i = 0; i < parts_->blocks.size(); ++i) {
    const Block& block = parts_->blocks[i];
    x = x + block.attention.forward(
                layers::rms_norm(x, block.attn_norm, eps), documents,
                state ? &state->layers[i] : nullptr, parts_->observer);
    x = x + layers::swiglu(layers::rms_norm(x, block.mlp_norm, eps),
                           block.gate_proj, block.up_proj, block.down_proj);
  }
  return layers::rms_norm(x, parts_->norm, eps);
}

at::Tensor LanguageModel::loss_sum(const Batch& batch) const {
  return ops::linear_cross_entropy(hidden(batch.tokens, batch.documents),
                                   parts_->head, batch.labels);
}

ops::TokenScores LanguageModel::token_scores(const Batch& batch,
                                             ModelState* state) const {
  const at::NoGradGuard no_grad;
  return ops::linear_token_scores(hidden(batch.tokens, batch.documents, state),
                                  parts_->head, batch.labels);
}

at::Tensor LanguageModel::logits(const at::Tensor& tokens,
                                 const ops::Documents& documents,
                                 ModelState* state) const {
  return at::linear(hidden(tokens, documents, state), parts_->head);
}

void LanguageModel::observe(layers::AttentionObserver* observer) {
  parts_->observer = observer;
}

}  // namespace osdn::model
