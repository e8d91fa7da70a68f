#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "grouped_rows.h"
#include "hf_names.h"
#include "osdn/arch/parameter_table.h"
#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "osdn/interchange/convert_dtype.h"
#include "osdn/interchange/weights.h"

namespace osdn::interchange {

namespace {

namespace fs = std::filesystem;
using checkpoint::WeightFiles;
using config::LayerKind;
using config::ModelConfig;
using config::Retention;

constexpr const char* kSingleName = "model.safetensors";
constexpr const char* kIndexName = "model.safetensors.index.json";

// Trap 3.
bool stays_f32(std::string_view name) {
  for (const std::string_view suffix :
       {".A_log", ".dt_bias", ".initial_scale", ".osgm_a_proj.bias",
        ".osgm_gamma_log"}) {
    if (name.ends_with(suffix)) return true;
  }
  return false;
}

// Trap 9: what the authors' KDA keeps once a key head.
TensorView collapsed(const TensorView& tensor, const ModelConfig& model,
                     std::vector<std::byte>& storage) {
  const auto rows = rows_of_a_head(model, tensor.name);
  if (!rows || !model.preconditioner.enabled) return tensor;
  auto bytes =
      collapse_heads(tensor, *rows, model.value_heads() / model.num_heads);
  if (!bytes) {
    throw Error(
        concat("tensor ", tensor.name,
               " differs between value heads of one key head, but the public "
               "os_kda has one for all of them; such a model cannot be written "
               "in its format"),
        ExitCode::kUsage);
  }
  storage = std::move(*bytes);
  TensorView out = tensor;
  out.shape.front() = out.shape.front() / model.value_heads() * model.num_heads;
  out.data = storage.data();
  return out;
}

// The authors' DeltaNet and GDN keep a constant retention as a tensor.
void add_constant_retention(const ModelConfig& model, TensorSet& out) {
  const double r = model.preconditioner.retention_value;
  const auto logit = static_cast<float>(std::log(r) - std::log1p(-r));
  if (!std::isfinite(logit)) {
    throw Error(
        concat("model.preconditioner.retention_value is ", r,
               ", whose logit the public format cannot hold; expected a number "
               "below 1, or retention \"none\""),
        ExitCode::kUsage);
  }
  const std::vector<float> values(static_cast<std::size_t>(model.value_heads()),
                                  logit);
  for (std::int64_t layer = 0; layer < model.num_layers; ++layer) {
    if (model.is_softmax(layer)) continue;
    std::vector<std::byte> bytes(values.size() * sizeof(float));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    out.add({concat("model.layers.", layer, ".attn.osgm_gamma_log"),
             DType::kF32,
             {model.value_heads()},
             nullptr},
            std::move(bytes));
  }
}

void compare(const fs::path& folder, const TensorSet& weights) {
  const WeightFiles files(folder);
  if (files.tensors().size() != weights.views().size()) {
    throw Error(concat(folder.string(), ": re-opened after writing, it has ",
                       files.tensors().size(), " tensors, expected ",
                       weights.views().size()));
  }
  for (const TensorView& tensor : weights.views()) {
    const TensorView& read = files.tensor(tensor.name);
    if (read.dtype != tensor.dtype || read.shape != tensor.shape ||
        std::memcmp(read.data, tensor.data, tensor.bytes()) != 0) {
      throw Error(concat(folder.string(), ": re-opened after writing, tensor ",
                         tensor.name, " is not what was written"));
    }
  }
}

// Tensors in their order, cut where a file would grow beyond the limit.
std::vector<std::vector<TensorView>> deal(const TensorSet& weights,
                                          std::uint64_t shard_bytes) {
  std::vector<std::vector<TensorView>> shards(1);
  std::uint64_t used = 0;
  for (const TensorView& tensor : weights.views()) {
    if (!shards.back().empty() && used + tensor.bytes() > shard_bytes) {
      shards.emplace_back();
      used = 0;
    }
    shards.back().push_back(tensor);
    used += tensor.bytes();
  }
  return shards;
}

}  // namespace

TensorSet export_weights(const WeightFiles& weights, const ModelConfig& model,
                         DType dtype) {
  TensorSet out;
  for (const arch::Parameter& parameter : arch::parameter_table(model)) {
    std::vector<std::byte> storage;
    TensorView tensor =
        collapsed(weights.tensor(parameter.name), model, storage);
    const DType wanted = stays_f32(parameter.name) ? DType::kF32 : dtype;
    if (tensor.dtype != wanted) {
      storage = convert(tensor, wanted);
      tensor.dtype = wanted;
    }
    tensor.name = name_in_files(model, parameter.name);
    if (storage.empty()) {
      out.add(std::move(tensor));
    } else {
      out.add(std::move(tensor), std::move(storage));
    }
  }
  if (model.preconditioner.enabled &&
      model.preconditioner.retention == Retention::kConstant &&
      model.layer != LayerKind::kKda) {
    add_constant_retention(model, out);
  }
  return out;
}

std::vector<std::string> write_weights(const fs::path& folder,
                                       const TensorSet& weights,
                                       std::uint64_t shard_bytes) {
  std::vector<std::string> names;
  const auto shards =
      shard_bytes == 0 ? std::vector<std::vector<TensorView>>{weights.views()}
                       : deal(weights, shard_bytes);
  if (shards.size() == 1) {
    checkpoint::write_safetensors(folder / kSingleName, shards.front());
    names = {kSingleName};
  } else {
    std::map<std::string, std::string> map;
    std::int64_t total = 0;
    for (std::size_t i = 0; i < shards.size(); ++i) {
      names.push_back(checkpoint::weight_file_name(
          "model", static_cast<std::int64_t>(i) + 1,
          static_cast<std::int64_t>(shards.size())));
      checkpoint::write_safetensors(folder / names.back(), shards[i]);
      for (const TensorView& tensor : shards[i]) {
        map[tensor.name] = names.back();
        total += static_cast<std::int64_t>(tensor.bytes());
      }
    }
    write_file_atomic(folder / kIndexName,
                      checkpoint::weight_index(map, total));
    names.push_back(kIndexName);
  }
  compare(folder, weights);
  return names;
}

}  // namespace osdn::interchange
