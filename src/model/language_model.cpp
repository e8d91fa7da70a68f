#include "osdn/model/language_model.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "initialise.h"
#include "osdn/core/error.h"
#include "osdn/layers/softmax_attention.h"
#include "osdn/ops/norm.h"
#include "osdn/ops/recompute.h"
#include "osdn/ops/swiglu.h"
#include "osdn/ops/threads.h"

namespace osdn::model {
namespace {

struct Block {
  at::Tensor attn_norm, mlp_norm;
  at::Tensor gate_proj, up_proj, down_proj;
  std::unique_ptr<const layers::Mixer> attention;
};

std::unique_ptr<const layers::Mixer> make_mixer(
    const config::ModelConfig& config, std::int64_t layer,
    const layers::ParameterSource& parameters) {
  if (config.is_softmax(layer)) {
    return std::make_unique<layers::SoftmaxAttention>(config, layer,
                                                      parameters);
  }
  return std::make_unique<layers::Attention>(config, layer, parameters);
}

Block make_block(const config::ModelConfig& config, std::int64_t layer,
                 const layers::ParameterSource& parameters) {
  const std::string prefix = "model.layers." + std::to_string(layer) + ".";
  const auto get = [&](const char* name) {
    return parameters.get(prefix + name);
  };
  return {get("attn_norm.weight"),     get("mlp_norm.weight"),
          get("mlp.gate_proj.weight"), get("mlp.up_proj.weight"),
          get("mlp.down_proj.weight"), make_mixer(config, layer, parameters)};
}

/// in: the residual stream and its norm; out: the same behind the block, with
/// the norm of whatever follows.
std::vector<at::Tensor> run_block(const Block& block,
                                  const at::Tensor& next_norm,
                                  const std::vector<at::Tensor>& in,
                                  const ops::Documents& documents,
                                  layers::AttentionState* state,
                                  layers::AttentionObserver* observer,
                                  double eps) {
  const at::Tensor mixed =
      block.attention->forward(in[1], documents, state, observer);
  const ops::ResidualNorm middle =
      ops::add_rms_norm(mixed, in[0], block.mlp_norm, eps);
  const at::Tensor fed = ops::swiglu_mlp(middle.y, block.gate_proj,
                                         block.up_proj, block.down_proj);
  const ops::ResidualNorm out =
      ops::add_rms_norm(fed, middle.sum, next_norm, eps);
  return {out.sum, out.y};
}

ModelParameter make_parameter(arch::Parameter info, at::ScalarType dtype,
                              at::Device device) {
  const bool narrow = dtype == at::kBFloat16;
  const at::TensorOptions options =
      at::TensorOptions()
          .dtype(narrow && arch::computes_in_fp32(info) ? at::kFloat : dtype)
          .device(device);
  at::Tensor tensor = at::zeros(info.shape, options);
  tensor.set_requires_grad(true);
  const at::Tensor master =
      tensor.scalar_type() == at::kBFloat16
          ? at::zeros(info.shape, options.dtype(at::kFloat))
          : tensor;
  return {std::move(info), tensor, master};
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
  bool recompute = false;
  std::function<void(std::int64_t)> arrival;
};

LanguageModel::LanguageModel(const config::ModelConfig& config,
                             at::ScalarType dtype, at::Device device)
    : parts_(new Parts{
          config, dtype, device, {}, {}, {}, {}, {}, nullptr, false, {}}) {
  layers::ParameterSource source;
  for (arch::Parameter& info : arch::parameter_table(config)) {
    parts_->parameters.push_back(
        make_parameter(std::move(info), dtype, device));
    const ModelParameter& parameter = parts_->parameters.back();
    source.add(parameter.info.name, parameter.tensor);
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
  const at::NoGradGuard no_grad;
  auto& parameters = parts_->parameters;
  std::vector<at::Tensor> values(parameters.size());
  ops::parallel_for(
      static_cast<std::int64_t>(parameters.size()),
      [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t i = first; i < last; ++i) {
          const ModelParameter& p = parameters[static_cast<std::size_t>(i)];
          at::Tensor& value = values[static_cast<std::size_t>(i)];
          value = p.master.is_cpu()
                      ? p.master
                      : at::empty(p.info.shape, p.master.scalar_type());
          initialise_parameter(p.info, parts_->config.initializer_range, seed,
                               value);
        }
      });
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i].master.is_cpu()) parameters[i].master.copy_(values[i]);
  }
  take_masters();
}

void LanguageModel::take_masters() {
  const at::NoGradGuard no_grad;
  for (ModelParameter& p : parts_->parameters) {
    if (!p.master.is_same(p.tensor)) p.tensor.copy_(p.master);
  }
}

void LanguageModel::release_masters() {
  for (ModelParameter& p : parts_->parameters) {
    if (!p.master.is_same(p.tensor)) p.master.reset();
  }
}

void LanguageModel::set_arrival(std::function<void(std::int64_t)> arrival) {
  parts_->arrival = std::move(arrival);
}

std::int64_t LanguageModel::part_of(const arch::Parameter& info) const {
  constexpr std::string_view kLayer = "model.layers.";
  if (info.name.starts_with(kLayer)) {
    return std::stoll(info.name.substr(kLayer.size())) + 1;
  }
  return info.name.starts_with("model.embeddings.")
             ? 0
             : parts_->config.num_layers + 1;
}

void LanguageModel::set_recompute(bool recompute) {
  parts_->recompute = recompute;
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
  const auto& blocks = parts_->blocks;
  const auto arrive = [this](std::size_t part) {
    if (parts_->arrival) parts_->arrival(static_cast<std::int64_t>(part));
  };
  arrive(0);
  arrive(1);
  // Residual stream and its norm, before every block and behind the last.
  std::vector<at::Tensor> stream(2);
  stream[0] = at::embedding(parts_->embedding, tokens);
  stream[1] = ops::rms_norm(stream[0], blocks.front().attn_norm, eps);
  const bool recompute = parts_->recompute && at::GradMode::is_enabled();
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    arrive(i + 2);  // a block also forms the norm of what follows it
    const at::Tensor& next_norm =
        i + 1 < blocks.size() ? blocks[i + 1].attn_norm : parts_->norm;
    layers::AttentionState* layer_state = state ? &state->layers[i] : nullptr;
    const ops::TensorFunction run =
        [&block = blocks[i], next_norm, documents, layer_state, eps,
         observer = parts_->observer](const std::vector<at::Tensor>& in) {
          return run_block(block, next_norm, in, documents, layer_state,
                           observer, eps);
        };
    stream = recompute ? ops::recompute(run, stream) : run(stream);
  }
  return stream[1];
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
  return ops::linear_logits(hidden(tokens, documents, state), parts_->head);
}

bool LanguageModel::steps_in_place() const {
  return parts_->observer == nullptr &&
         std::all_of(parts_->blocks.begin(), parts_->blocks.end(),
                     [](const Block& block) {
                       return block.attention->steps_in_place();
                     });
}

void LanguageModel::observe(layers::AttentionObserver* observer) {
  parts_->observer = observer;
}

}  // namespace osdn::model
