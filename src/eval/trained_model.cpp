#include "osdn/eval/trained_model.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "osdn/checkpoint/checkpoint_store.h"
#include "osdn/checkpoint/run_dir.h"
#include "osdn/config/reader.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "osdn/core/hash.h"
#include "osdn/core/log.h"
#include "osdn/core/path.h"
#include "osdn/eval/result.h"
#include "osdn/model/weights.h"

namespace osdn::eval {
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
  if (is_there(path / kWeightsName)) {
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
  for (const checkpoint::ManifestFile& file : checkpoint.manifest.files) {
    if (file.name == kWeightsName) return to_hex(file.xxh3);
  }
  throw Error(
      checkpoint.path.string() + ": its manifest does not name " + kWeightsName,
      ExitCode::kBadInput);
}

}  // namespace

TrainedModel load_trained_model(const fs::path& path, at::ScalarType dtype,
                                at::Device device) {
  const checkpoint::Checkpoint found = open_sound(path);
  const fs::path config_file = found.path / checkpoint::kConfigName;
  const config::Config config =
      config::parse(read_file(config_file), config_file.string());
  // Of the resolved keys, so that a default written out changes nothing.
  const std::string config_hash = canonical_hash(
      nlohmann::json::parse(config::to_json(config)).at("model"));
  TrainedModel trained{found.path, config, config_hash, weights_hash(found),
                       model::LanguageModel(config.model, dtype, device)};
  model::load_weights(trained.model, found.path / kWeightsName);
  return trained;
}

}  // namespace osdn::eval
