#include "support/tiny_model.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log_softmax.h>

#include <stdexcept>

#include "osdn/checkpoint/checkpoint_store.h"
#include "osdn/checkpoint/run_dir.h"
#include "osdn/config/reader.h"
#include "osdn/core/file.h"
#include "osdn/core/random.h"
#include "osdn/model/trained_model.h"
#include "osdn/tokenizer/train.h"
#include "support/held_tensors.h"

namespace osdn::test {

using nlohmann::json;

std::string tiny_text(std::uint64_t seed, int lines) {
  Xoshiro256 random(seed);
  std::string text;
  for (int line = 0; line < lines; ++line) {
    for (int word = 0; word < 6; ++word) {
      text += word > 0 ? " " : "";
      for (std::uint64_t i = 0; i <= random.below(5); ++i) {
        text += static_cast<char>('a' + random.below(8));
      }
    }
    text += ".\n";
  }
  return text;
}

void put_file(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  write_file_atomic(path, text);
}

void write_tokenizer(const std::filesystem::path& path, std::int32_t pieces) {
  tokenizer::TrainOptions options;
  options.vocab_size = pieces;
  int texts = 1;
  put_file(path, tokenizer::train(options, [&](std::string& text) {
             text = tiny_text(1, 400);
             return texts-- > 0;
           }));
}

json osdn_apf_model() {
  json model = deltanet_model();
  model["preconditioner"] = {
      {"retention", "data_dependent"}, {"eta", 0.5}, {"retention_bias", 3.0}};
  return model;
}

json deltanet_model() {
  return {{"layer", "deltanet"},     {"vocab_size", kVocab},
          {"hidden_size", 32},       {"num_layers", 2},
          {"num_heads", 2},          {"intermediate_size", 48},
          {"initializer_range", 0.3}};
}

json hybrid_model() {
  json model = deltanet_model();
  model["softmax"] = {{"layers", {1}}, {"num_heads", 4}, {"num_kv_heads", 2}};
  return model;
}

json transformer_model() {
  json model = hybrid_model();
  model["layer"] = "transformer";
  model.erase("num_heads");
  model["softmax"].erase("layers");
  return model;
}

std::filesystem::path save_checkpoint(const std::filesystem::path& run_dir,
                                      std::int64_t step, const json& model,
                                      std::uint64_t seed,
                                      const std::string& tokenizer) {
  const json root = {
      {"run_dir", run_dir.string()},
      {"model", model},
      {"data",
       {{"train", {"t"}}, {"context_length", 24}, {"tokenizer", tokenizer}}},
      {"training", {{"validate_every", 0}}}};
  const config::Config config = config::parse(root.dump(), "tiny.json");
  model::LanguageModel language_model(config.model, at::kFloat, at::kCPU);
  language_model.initialise(seed);
  checkpoint::CheckpointParts parts;
  const ops::HostTensors weights = weights_of(language_model);
  parts.tensors = {{"model.safetensors", weights.views()}};
  parts.texts = {
      {std::string(checkpoint::kConfigName), config::to_json(config)}};
  checkpoint::CheckpointStore store(run_dir / checkpoint::kCheckpointFolder);
  const checkpoint::SaveResult result = store.save(step, parts);
  if (!result.saved()) throw std::runtime_error(result.problem);
  return result.path;
}

std::vector<std::vector<double>> token_by_token(
    const std::filesystem::path& run_dir,
    const std::vector<std::int32_t>& inputs) {
  const at::NoGradGuard no_grad;
  const model::TrainedModel trained =
      model::load_trained_model(run_dir, at::kDouble, at::kCPU);
  model::ModelState state;
  std::vector<std::vector<double>> rows;
  for (const std::int32_t input : inputs) {
    const at::Tensor token =
        at::full({1}, static_cast<std::int64_t>(input), at::kLong);
    const at::Tensor log_prob =
        at::log_softmax(
            trained.model.logits(token, ops::Documents::single(1), &state), 1)
            .contiguous();
    const double* values = log_prob.data_ptr<double>();
    rows.emplace_back(values, values + log_prob.numel());
  }
  return rows;
}

}  // namespace osdn::test
