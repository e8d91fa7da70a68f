#include "osdn/eval/trained_model.h"

#include <nlohmann/json.hpp>

#include "osdn/checkpoint/checkpoint_store.h"
#include "osdn/checkpoint/run_dir.h"
#include "osdn/config/reader.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "osdn/core/log.h"
#include "osdn/eval/result.h"
#include "osdn/model/weights.h"

namespace osdn::eval {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWeightsName = "model.safetensors";

fs::path checkpoint_folder(const fs::path& path) {
  const fs::path store_folder = path / checkpoint::kCheckpointFolder;
  if (fs::is_directory(store_folder)) {
    const auto latest = checkpoint::CheckpointStore(store_folder).find_latest();
    for (const auto& other : latest.passed_over) {
      log::warn("passed over " + other.path.string() + ": " + other.reason);
    }
    if (latest.found) return latest.found->path;
    throw Error(store_folder.string() + " holds no sound checkpoint",
                ExitCode::kBadInput);
  }
  if (fs::exists(path / kWeightsName)) {
    return checkpoint::open_checkpoint(path).path;
  }
  throw Error(path.string() +
                  " is neither a run folder (with checkpoints/) nor a "
                  "checkpoint (with model.safetensors)",
              ExitCode::kBadInput);
}

}  // namespace

TrainedModel load_trained_model(const fs::path& path, at::ScalarType dtype,
                                at::Device device) {
  const fs::path folder = checkpoint_folder(path);
  const fs::path config_file = folder / checkpoint::kConfigName;
  const std::string text = read_file(config_file);
  const config::Config config = config::parse(text, config_file.string());
  const std::string hash =
      canonical_hash(nlohmann::json::parse(text).at("model"));
  TrainedModel trained{folder, config, hash,
                       model::LanguageModel(config.model, dtype, device)};
  model::load_weights(trained.model, folder / kWeightsName);
  return trained;
}

}  // namespace osdn::eval
