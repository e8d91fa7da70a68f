#include "osdn/interchange/folders.h"

#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "osdn/checkpoint/checkpoint_store.h"
#include "osdn/checkpoint/run_dir.h"
#include "osdn/config/reader.h"
#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "osdn/core/hash.h"
#include "osdn/core/path.h"
#include "osdn/core/utc_time.h"
#include "osdn/core/version.h"
#include "osdn/interchange/weights.h"

namespace osdn::interchange {

namespace {

namespace fs = std::filesystem;

constexpr const char* kWeightsName = "model.safetensors";
const std::string kConfigName(checkpoint::kConfigName);

// A folder that appears under its name complete or not at all.
class FreshFolder {
 public:
  explicit FreshFolder(const fs::path& path)
      : path_(fs::absolute(path).lexically_normal()) {
    if (!path_.has_filename()) path_ = path_.parent_path();
    std::error_code ignored;
    if (is_there(path_) &&
        (!is_folder(path_) || !fs::is_empty(path_, ignored))) {
      throw Error(concat(path_.string(),
                         " exists already; give the name of a new folder"),
                  ExitCode::kUsage);
    }
    aside_ = path_;
    aside_ += concat(".tmp-", ::getpid());
    try {
      fs::create_directories(aside_);
    } catch (const fs::filesystem_error& error) {
      throw Error(concat(aside_.string(),
                         ": cannot be made: ", error.code().message()));
    }
  }
  ~FreshFolder() {
    std::error_code ignored;
    fs::remove_all(aside_, ignored);
  }
  FreshFolder(const FreshFolder&) = delete;
  FreshFolder& operator=(const FreshFolder&) = delete;

  const fs::path& aside() const { return aside_; }
  const fs::path& path() const { return path_; }

  void commit() {
    sync_folder(aside_);
    rename_synced(aside_, path_);
  }

 private:
  fs::path path_;
  fs::path aside_;
};

// A run's configuration around an imported model: only the model and its
// context length are known, the rest has the recipe's defaults.
std::string config_text(const ImportedConfig& imported,
                        const FromHfOptions& options, const std::string& name) {
  config::Config whole;
  whole.run_dir = concat("runs/", name);
  whole.model = imported.model;
  whole.data.train = {"data/train"};
  whole.data.tokenizer = options.tokenizer;
  whole.data.context_length = imported.max_position_embeddings;
  whole.data.sequence_length =
      std::max(whole.data.sequence_length, whole.data.context_length);
  whole.training.validate_every = 0;
  std::string text = config::to_json(whole);
  config::parse(text, kConfigName);  // what osdn-eval will do
  return text;
}

checkpoint::Checkpoint open_sound(const fs::path& path) {
  const fs::path folder = path / checkpoint::kCheckpointFolder;
  if (!is_folder(folder)) return checkpoint::open_checkpoint(path);
  auto latest = checkpoint::CheckpointStore(folder).find_latest();
  if (latest.found) return std::move(*latest.found);
  std::string reasons;
  for (const checkpoint::PassedOver& other : latest.passed_over) {
    reasons += concat("\n  ", other.path.string(), ": ", other.reason);
  }
  throw Error(concat(folder.string(), " holds no sound checkpoint", reasons),
              ExitCode::kBadInput);
}

}  // namespace

std::vector<std::string> from_hf(const FromHfOptions& options) {
  const fs::path config_file = options.from / kConfigName;
  ImportedConfig imported =
      hf_config_to_model(read_file(config_file), config_file.string());
  const checkpoint::WeightFiles files(options.from);
  const TensorSet weights = import_weights(files, imported, DType::kF32);

  FreshFolder folder(options.to);
  const std::string text =
      config_text(imported, options, folder.path().filename().string());
  const checkpoint::WrittenFile written = checkpoint::write_safetensors(
      folder.aside() / kWeightsName, weights.views());
  write_file_atomic(folder.aside() / kConfigName, text);
  checkpoint::write_manifest(folder.aside(),
                             {0,
                              commit(),
                              utc_now(),
                              {{kWeightsName, written.size, written.xxh3},
                               {kConfigName, text.size(), xxh3_64(text)}}});
  checkpoint::open_checkpoint(folder.aside());
  folder.commit();
  return imported.warnings;
}

std::vector<std::string> to_hf(const ToHfOptions& options) {
  const checkpoint::Checkpoint found = open_sound(options.from);
  const fs::path config_file = found.path / kConfigName;
  const config::Config whole =
      config::parse(read_file(config_file), config_file.string());
  ExportOptions config = options.config;
  config.max_position_embeddings = whole.data.context_length;
  const std::string text = model_to_hf_config(whole.model, config);

  const checkpoint::WeightFiles files(found.path);
  const TensorSet weights = export_weights(files, whole.model, config.dtype);
  FreshFolder folder(options.to);
  std::vector<std::string> names =
      write_weights(folder.aside(), weights, options.shard_bytes);
  write_file_atomic(folder.aside() / kConfigName, text);
  names.push_back(kConfigName);
  // What was written is what was meant: it reads back as the same model.
  hf_config_to_model(text, kConfigName);
  folder.commit();
  return names;
}

}  // namespace osdn::interchange
