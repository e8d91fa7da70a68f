#include "osdn/model/trained_model.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "osdn/checkpoint/checkpoint_store.h"
#include "osdn/checkpoint/run_dir.h"
#include "osdn/checkpoint/weight_files.h"
#include "osdn/config/reader.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "osdn/core/hash.h"
#include "osdn/core/log.h"
#include "osdn/core/path.h"
#include "osdn/model/weights.h"

namespace osdn::model {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWeightsName = "model.safetensors";

checkpoint::Checkpoint open_sound(const fs::path& path) {
  const fs::path store_folder = path / checkpoint::kCheckpointFolder;
  if (is_folder(store_folder)) {
    auto latest = checkpoint::CheckpointStore(store_folder).find_latest();
    for (const auto& other : latest.passed_over) {
      log::warn("passed over ", other.path.string(), ": ", other.reason);
    }
    if (latest.found) return std::move(*latest.found);
    throw Error(store_folder.string() + " holds no sound checkpoint",
                ExitCode::kBadInput);
  }
  if (checkpoint::has_weights(path)) {
    return checkpoint::open_checkpoint(path);
  }
  throw Error(path.string() +
                  (is_there(path)
                       ? " is neither a run folder (with checkpoints/) nor a "
                         "checkpoint (with model.safetensors)"
                       : " does not exist or cannot be entered; expected "
                         "a run folder or a "
                         "checkpoint folder"),
              ExitCode::kBadInput);
}

std::string weights_hash(const checkpoint::Checkpoint& checkpoint) {
  std::string shards;
  for (const checkpoint::ManifestFile& file : checkpoint.manifest.files) {
    if (file.name == kWeightsName) return to_hex(file.xxh3);
    if (file.name.starts_with("model-")) shards += to_hex(file.xxh3);
  }
  if (shards.empty()) {
    throw Error(checkpoint.path.string() + ": its manifest names no weights",
                ExitCode::kBadInput);
  }
  return to_hex(xxh3_64(shards));
}

}  // namespace

TrainedFolder open_trained_folder(const fs::path& path) {
  const checkpoint::Checkpoint found = open_sound(path);
  const fs::path config_file = found.path / checkpoint::kConfigName;
  const config::Config config =
      config::parse(read_file(config_file), config_file.string());
  // Of the resolved keys, so that a default written out changes nothing; sorted
  // and without spaces.
  const std::string section =
      nlohmann::json::parse(config::to_json(config)).at("model").dump();
  return {found.path, config, sha256(section), weights_hash(found)};
}

LanguageModel load_model(const TrainedFolder& folder, at::ScalarType dtype,
                         at::Device device) {
  LanguageModel model(folder.config.model, dtype, device);
  load_weights(model, folder.folder);
  return model;
}

TrainedModel load_trained_model(const fs::path& path, at::ScalarType dtype,
                                at::Device device) {
  const TrainedFolder folder = open_trained_folder(path);
  return {folder, load_model(folder, dtype, device)};
}

}  // namespace osdn::model
