#include "train/tiny_run.h"

#include <mutex>

#include "osdn/checkpoint/checkpoint_store.h"
#include "osdn/checkpoint/run_dir.h"
#include "osdn/config/reader.h"
#include "osdn/core/error.h"
#include "osdn/core/log.h"
#include "osdn/core/random.h"
#include "osdn/data/token_shard.h"
#include "support/json.h"

namespace osdn::test {

std::vector<std::vector<std::int32_t>> tiny_documents(std::uint64_t seed,
                                                      int count) {
  Xoshiro256 random(seed);
  std::vector<std::vector<std::int32_t>> out;
  for (int i = 0; i < count; ++i) {
    std::vector<std::int32_t> document;
    const std::uint64_t length = 2 + random.below(24);
    std::int64_t id = static_cast<std::int64_t>(random.below(kVocab));
    for (std::uint64_t j = 0; j < length; ++j) {
      document.push_back(static_cast<std::int32_t>(id));
      // Mostly the next id, sometimes another.
      id = random.below(8) == 0
               ? static_cast<std::int64_t>(random.below(kVocab))
               : (id + 1) % kVocab;
    }
    out.push_back(document);
  }
  return out;
}

void write_shard(const std::filesystem::path& path,
                 const std::vector<std::vector<std::int32_t>>& documents) {
  data::ShardHeader header;
  header.vocab_size = kVocab;
  header.token_bytes = data::token_bytes_for(kVocab);
  data::TokenShardWriter writer(path, header);
  for (const std::vector<std::int32_t>& document : documents) {
    writer.add_document(document);
  }
  writer.finish();
}

TinyRun::TinyRun(int documents) {
  write_shard(folder_ / "train.tokens", tiny_documents(1, documents));
  write_shard(folder_ / "validation.tokens", tiny_documents(2, 9));
  json = {{"run_dir", (folder_ / "run").string()},
          {"model",
           {{"layer", "deltanet"},
            {"vocab_size", kVocab},
            {"hidden_size", 16},
            {"num_layers", 1},
            {"num_heads", 2},
            {"intermediate_size", 24},
            {"preconditioner", {{"retention", "data_dependent"}}}}},
          {"data",
           {{"train", {(folder_ / "train.tokens").string()}},
            {"validation", {(folder_ / "validation.tokens").string()}},
            {"context_length", 16},
            {"sequence_length", 32}}},
          {"optimizer", {{"lr", 0.01}}},
          {"schedule", {{"total_steps", 12}, {"warmup_steps", 2}}},
          {"training",
           {{"steps", 12},
            {"global_batch", 2},
            {"micro_batch", 1},
            {"device", "cpu"},
            {"dtype", "fp32"},
            {"threads", 1},
            {"validate_every", 4}}},
          {"checkpoint", {{"every", 4}}},
          {"logging", {{"every", 1000}}}};
}

config::Config TinyRun::config(
    const std::string& name, const std::vector<std::string>& overrides) const {
  nlohmann::json copy = json;
  copy["run_dir"] = run_dir(name).string();
  return config::parse(copy.dump(), "tiny.json", overrides);
}

train::RunRequest TinyRun::request(
    const std::string& name, const std::vector<std::string>& overrides) const {
  train::RunRequest request;
  request.config = config(name, overrides);
  request.command_line = {"tiny"};
  return request;
}

std::filesystem::path TinyRun::config_file(const std::string& name) const {
  nlohmann::json copy = json;
  copy["run_dir"] = run_dir(name).string();
  const std::filesystem::path path = folder_ / (name + ".json");
  write_json(path, copy);
  return path;
}

std::vector<report::StepRecord> TinyRun::log(const std::string& name) const {
  return report::read_step_log(run_dir(name) / checkpoint::kStepLogName);
}

std::vector<std::int64_t> TinyRun::saved_steps(const std::string& name) const {
  return checkpoint::CheckpointStore(run_dir(name) /
                                     checkpoint::kCheckpointFolder)
      .steps();
}

std::vector<std::string> fingerprints(
    const std::vector<report::StepRecord>& log, bool with_validation) {
  std::vector<std::string> out;
  for (report::StepRecord record : log) {
    record.time = 0;
    record.tokens_per_s = 0;
    if (!with_validation) {
      record.validation.reset();
      record.validation_owed = false;
    } else if (record.validation) {
      record.validation->seconds = 0;
    }
    out.push_back(report::to_json(record));  // every bit of a double
  }
  return out;
}

struct LogCapture::State {
  mutable std::mutex mutex;
  std::string text;
  log::Capture capture{[this](log::Level level, std::string_view message) {
    const std::lock_guard lock(mutex);
    text += level == log::Level::kError  ? "error "
            : level == log::Level::kWarn ? "warn "
                                         : "info ";
    text += message;
    text += "\n";
  }};
};

LogCapture::LogCapture() : state_(std::make_unique<State>()) {}
LogCapture::~LogCapture() = default;

std::string LogCapture::text() const {
  const std::lock_guard lock(state_->mutex);
  return state_->text;
}

std::string error_of(const std::function<void()>& body, ExitCode expected) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(expected))
        << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no Error was thrown";
  return "";
}

}  // namespace osdn::test
