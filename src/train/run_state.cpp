#include "osdn/train/run_state.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"

namespace osdn::train {

namespace {

constexpr std::int64_t kVersion = 1;

class Reader {
 public:
  explicit Reader(std::filesystem::path file) : file_(std::move(file)) {
    root_ = nlohmann::json::parse(read_file(file_), nullptr, false);
    if (!root_.is_object()) {
      throw problem("is not a JSON object");
    }
  }

  void get(const char* key, std::int64_t& out) const {
    const nlohmann::json& value = at(key);
    if (!value.is_number_integer() || value < 0) {
      throw problem(concat("key \"", key, "\" is ", value.dump(),
                           ", not an integer from 0 on"));
    }
    out = value.get<std::int64_t>();
  }
  void get(const char* key, std::uint64_t& out) const {
    const nlohmann::json& value = at(key);
    if (!value.is_number_unsigned()) {
      throw problem(concat("key \"", key, "\" is ", value.dump(),
                           ", not an integer from 0 on"));
    }
    out = value.get<std::uint64_t>();
  }
  void get(const char* key, double& out) const {
    const nlohmann::json& value = at(key);
    if (!value.is_number() || !(value.get<double>() >= 0)) {
      throw problem(concat("key \"", key, "\" is ", value.dump(),
                           ", not a number from 0 on"));
    }
    out = value.get<double>();
  }
  void get(const char* key, std::string& out) const {
    const nlohmann::json& value = at(key);
    if (!value.is_string()) {
      throw problem(
          concat("key \"", key, "\" is ", value.dump(), ", not a string"));
    }
    out = value.get<std::string>();
  }

  bool has(const char* key) const { return root_.contains(key); }

  Error problem(const std::string& what) const {
    return Error(concat(file_.string(), ": ", what), ExitCode::kBadInput);
  }

 private:
  const nlohmann::json& at(const char* key) const {
    const auto found = root_.find(key);
    if (found == root_.end()) {
      throw problem(concat("key \"", key, "\" is missing"));
    }
    return *found;
  }

  std::filesystem::path file_;
  nlohmann::json root_;
};

}  // namespace

std::string to_json(const RunState& state) {
  const nlohmann::ordered_json root = {
      {"version", kVersion},
      {"step", state.step},
      {"next_sample", state.next_sample},
      {"tokens", state.tokens},
      {"updates", state.optimizer.updates},
      {"beta1_product", state.optimizer.beta1_product},
      {"beta2_product", state.optimizer.beta2_product},
      {"skipped", state.skipped},
      {"skipped_in_row", state.skipped_in_row},
      {"unlabelled", state.unlabelled},
      {"train_seconds", state.train_seconds},
      {"seed", state.seed},
      {"data_fingerprint", state.data_fingerprint},
      {"device", state.device},
      {"dtype", state.dtype},
      {"threads", state.threads},
      {"ranks", state.ranks}};
  return root.dump(2) + "\n";
}

RunState read_run_state(const std::filesystem::path& file) {
  const Reader reader(file);
  std::int64_t version = 0;
  reader.get("version", version);
  if (version != kVersion) {
    throw reader.problem(concat("has version ", version,
                                "; this program reads version ", kVersion));
  }
  RunState state;
  reader.get("step", state.step);
  reader.get("next_sample", state.next_sample);
  reader.get("tokens", state.tokens);
  reader.get("updates", state.optimizer.updates);
  reader.get("beta1_product", state.optimizer.beta1_product);
  reader.get("beta2_product", state.optimizer.beta2_product);
  reader.get("skipped", state.skipped);
  reader.get("skipped_in_row", state.skipped_in_row);
  reader.get("unlabelled", state.unlabelled);
  reader.get("train_seconds", state.train_seconds);
  reader.get("seed", state.seed);
  reader.get("data_fingerprint", state.data_fingerprint);
  reader.get("device", state.device);
  reader.get("dtype", state.dtype);
  reader.get("threads", state.threads);
  if (reader.has("ranks")) {  // older files are of one rank
    reader.get("ranks", state.ranks);
  }
  return state;
}

}  // namespace osdn::train
