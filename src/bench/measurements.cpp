// Measured figures: from files, and those that docs/results has.

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "osdn/arch/parameter_table.h"
#include "osdn/bench/scaling_fit.h"
#include "osdn/config/reader.h"
#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"

namespace osdn::bench {
namespace {

using nlohmann::json;

/// One object of the file, and where it is for messages.
class Entry {
 public:
  Entry(const json& value, std::string where)
      : value_(value), where_(std::move(where)) {
    if (!value_.is_object()) fail("is no object");
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(concat(where_, " ", what), ExitCode::kBadInput);
  }

  double positive(const char* key) const {
    const json* found = find(key);
    if (found == nullptr || !found->is_number()) {
      fail(concat("has no number \"", key, "\""));
    }
    const double number = found->get<double>();
    if (!(number > 0) || !std::isfinite(number)) {
      fail(concat("\"", key, "\" is ", number, "; it must be above 0"));
    }
    return number;
  }
  std::int64_t count(const char* key) const {
    const double number = positive(key);
    if (number != std::floor(number) || number > 1e15) {
      fail(concat("\"", key, "\" is ", number, "; it must be a whole number"));
    }
    return static_cast<std::int64_t>(number);
  }
  int small(const char* key, int otherwise) const {
    if (find(key) == nullptr) return otherwise;
    const std::int64_t number = count(key);
    if (number > 1 << 20) fail(concat("\"", key, "\" is ", number));
    return static_cast<int>(number);
  }
  std::string text(const char* key) const {
    const json* found = find(key);
    if (found == nullptr || !found->is_string()) {
      fail(concat("has no text \"", key, "\""));
    }
    return found->get<std::string>();
  }
  std::vector<std::string> texts(const char* key) const {
    const json* found = find(key);
    const bool sound =
        found != nullptr && found->is_array() &&
        std::all_of(found->begin(), found->end(),
                    [](const json& one) { return one.is_string(); });
    if (!sound) fail(concat("has no list of texts \"", key, "\""));
    return found->get<std::vector<std::string>>();
  }
  bool is_zero(const char* key) const { return *find(key) == 0; }
  bool has(const char* key) const { return find(key) != nullptr; }
  bool by_peer() const {
    if (!has("exchange")) return false;
    const std::string exchange = text("exchange");
    if (exchange != "peer" && exchange != "nccl" && exchange != "mpi") {
      fail(concat("has the \"exchange\" \"", exchange,
                  "\"; it must be peer, nccl or mpi"));
    }
    return exchange == "peer";
  }
  bool yes(const char* key) const {
    if (!find(key)->is_boolean()) {
      fail(concat("\"", key, "\" is neither true nor false"));
    }
    return find(key)->get<bool>();
  }

 private:
  const json* find(const char* key) const {
    const auto found = value_.find(key);
    return found == value_.end() || found->is_null() ? nullptr : &*found;
  }

  const json& value_;
  std::string where_;
};

void check_hosts(const Entry& entry, int ranks, int hosts) {
  if (ranks % hosts != 0) {
    entry.fail(concat("has ", ranks, " ranks on ", hosts,
                      " hosts; each host must have as many"));
  }
}

MeasuredStep step_from(const Entry& entry) {
  MeasuredStep step;
  step.config = entry.text("config");
  if (entry.has("set")) step.overrides = entry.texts("set");
  step.tokens = entry.count("tokens_per_step");
  step.step_s = entry.positive("step_s");
  step.ranks = entry.small("ranks", 1);
  step.hosts = entry.small("hosts", 1);
  step.ranks_at_once = entry.small("ranks_at_once", 1);
  step.micro_batches = entry.small("micro_batches", 1);
  step.peer = entry.by_peer();
  check_hosts(entry, step.ranks, step.hosts);
  // Zero where it was not counted.
  if (entry.has("memory_bytes") && !entry.is_zero("memory_bytes")) {
    step.memory_bytes = entry.positive("memory_bytes");
  }
  try {
    step.dist = config::load({step.config, step.overrides}).dist;
  } catch (const Error& error) {
    if (step.overrides.empty()) throw;
    entry.fail(concat("has a \"config\" and \"set\" that do not load: ",
                      error.what()));
  }
  if (entry.has("reduce_dtype")) {
    step.dist.reduce_dtype = entry.text("reduce_dtype");
    if (step.dist.reduce_dtype != "fp32" && step.dist.reduce_dtype != "bf16") {
      entry.fail("has a \"reduce_dtype\" that is neither fp32 nor bf16");
    }
  }
  if (entry.has("shard_optimizer")) {
    step.dist.shard_optimizer = entry.yes("shard_optimizer");
  }
  if (entry.has("bucket_mb")) step.dist.bucket_mb = entry.positive("bucket_mb");
  return step;
}

MeasuredTransfer transfer_from(const Entry& entry) {
  MeasuredTransfer transfer;
  transfer.ranks = entry.small("ranks", 0);
  transfer.hosts = entry.small("hosts", 1);
  transfer.bytes = entry.positive("bytes");
  transfer.seconds = entry.positive("seconds");
  if (transfer.ranks < 2) entry.fail("needs \"ranks\" of 2 or more");
  if (entry.has("operation")) {
    const std::string operation = entry.text("operation");
    transfer.all_reduce = operation == "all_reduce";
    transfer.sums = operation != "all_gather";
    if (!transfer.all_reduce && operation != "reduce_scatter" &&
        operation != "all_gather") {
      entry.fail(concat("has the \"operation\" \"", operation,
                        "\"; it must be reduce_scatter, all_gather or "
                        "all_reduce"));
    }
  }
  transfer.peer = entry.by_peer();
  check_hosts(entry, transfer.ranks, transfer.hosts);
  return transfer;
}

/// Without folder and ending.
std::string short_name(const std::string& config) {
  std::string name = std::filesystem::path(config).filename().string();
  const std::string ending = ".json";
  if (name.ends_with(ending)) name.resize(name.size() - ending.size());
  return name;
}

}  // namespace

Measurements read_measurements(const std::filesystem::path& file) {
  const std::string name = file.string();
  json content;
  try {
    content = json::parse(read_file(file));
  } catch (const json::exception& error) {
    throw Error(concat(name, ": ", error.what()), ExitCode::kBadInput);
  }
  const Entry top(content, name + ":");
  Measurements out;
  if (top.has("copy_bytes_per_s")) {
    out.copy_bytes_per_s = top.positive("copy_bytes_per_s");
  }
  const auto each = [&](const char* key, const auto& take) {
    if (!top.has(key)) return;
    if (!content[key].is_array()) top.fail(concat("\"", key, "\" is no list"));
    int index = 0;
    for (const json& value : content[key]) {
      take(Entry(value, concat(name, ": /", key, "/", index++)));
    }
  };
  each("training",
       [&](const Entry& entry) { out.steps.push_back(step_from(entry)); });
  each("collectives", [&](const Entry& entry) {
    out.transfers.push_back(transfer_from(entry));
  });
  if (out.steps.empty() && out.transfers.empty()) {
    top.fail("has neither \"training\" nor \"collectives\"");
  }
  return out;
}

Measurements read_measurements(
    const std::vector<std::filesystem::path>& files) {
  Measurements all;
  for (const std::filesystem::path& file : files) {
    const Measurements more = read_measurements(file);
    if (all.copy_bytes_per_s == 0) all.copy_bytes_per_s = more.copy_bytes_per_s;
    all.steps.insert(all.steps.end(), more.steps.begin(), more.steps.end());
    all.transfers.insert(all.transfers.end(), more.transfers.begin(),
                         more.transfers.end());
  }
  return all;
}

StepCompute split_step(const config::ModelConfig& model, double step_s,
                       double copy_bytes_per_s) {
  // Read: gradient, master and two moments in fp32; written: master, moments
  // and the bf16 copy.
  constexpr double kBytesOfUpdate = 16 + 14;
  const double parameters = static_cast<double>(
      arch::count_parameters(arch::parameter_table(model)).total);
  StepCompute compute;
  if (copy_bytes_per_s > 0) {
    compute.optimizer_s = kBytesOfUpdate * parameters / copy_bytes_per_s;
  }
  const double rest = step_s - compute.optimizer_s;
  if (!(rest > 0)) {
    throw Error(
        concat("a step of ", step_s, " s is shorter than its update of ",
               compute.optimizer_s, " s"),
        ExitCode::kUsage);
  }
  compute.forward_s = rest / 3;
  compute.backward_s = rest - compute.forward_s;
  return compute;
}

namespace {

/// Values by key, the last of each; how ranks exchange is no part of a step of
/// one.
std::map<std::string, std::string> work_keys(
    const std::vector<std::string>& overrides) {
  std::map<std::string, std::string> values;
  for (const std::string& one : overrides) {
    const std::size_t equals = std::min(one.find('='), one.size());
    if (one.starts_with("dist.")) continue;
    values[one.substr(0, equals)] = one.substr(equals);
  }
  return values;
}

bool is_reference(const MeasuredStep& step, const config::LoadRequest& asked,
                  std::int64_t tokens) {
  return step.ranks == 1 &&
         short_name(step.config) == short_name(asked.config) &&
         work_keys(step.overrides) == work_keys(asked.overrides) &&
         (tokens == 0 || step.tokens == tokens);
}

/// "340m_osdn with --set training.recompute=true"
std::string in_words(const std::string& config,
                     const std::vector<std::string>& overrides) {
  std::string text = config;
  for (const auto& [key, value] : work_keys(overrides)) {
    text += concat(" with --set ", key, value);
  }
  return text;
}

[[noreturn]] void fail_without_reference(const std::vector<MeasuredStep>& steps,
                                         const config::LoadRequest& asked,
                                         std::int64_t tokens) {
  std::string known;
  for (const MeasuredStep& step : steps) {
    if (step.ranks > 1 || step.ranks_at_once > 1) continue;
    known += concat(known.empty() ? "" : ", ",
                    in_words(short_name(step.config), step.overrides), " of ",
                    step.tokens, " tokens");
  }
  throw Error(
      concat("no step of one GPU is known for ",
             in_words(asked.config, asked.overrides),
             tokens == 0 ? "" : concat(" of ", tokens, " tokens"),
             "; there are: ", known.empty() ? "none" : known,
             " (measure it with osdn-bench train --json, or say --step-ms)"),
      ExitCode::kUsage);
}

}  // namespace

MeasuredStep reference_of(const std::vector<MeasuredStep>& steps,
                          const config::LoadRequest& asked,
                          std::int64_t tokens) {
  for (const MeasuredStep& step : steps) {
    if (is_reference(step, asked, tokens) && step.ranks_at_once == 1) {
      return step;
    }
  }
  fail_without_reference(steps, asked, tokens);
}

MeasuredStep reference_of(const std::vector<MeasuredStep>& steps,
                          const MeasuredStep& step) {
  const config::LoadRequest asked{step.config, step.overrides};
  const MeasuredStep* best = nullptr;
  int best_match = -1;
  for (const MeasuredStep& one : steps) {
    const bool beside = one.ranks_at_once == step.ranks;
    if (!is_reference(one, asked, step.tokens) ||
        (!beside && one.ranks_at_once > 1)) {
      continue;
    }
    const int match =
        (one.micro_batches == step.micro_batches ? 2 : 0) + (beside ? 1 : 0);
    if (match > best_match) {
      best_match = match;
      best = &one;
    }
  }
  if (best == nullptr) fail_without_reference(steps, asked, step.tokens);
  return *best;
}

Measurements h200_measurements() {
  struct Row {
    const char* config;
    std::int64_t tokens;
    double step_ms;
    double memory_gib;
  };
  constexpr Row kRows[] = {{"340m_deltanet", 65536, 314.0, 62.6},
                           {"340m_osdn", 65536, 332.9, 66.1},
                           {"340m_osdn_apf", 65536, 342.3, 66.2},
                           {"340m_gdn", 65536, 324.3, 61.6},
                           {"340m_kda", 65536, 359.9, 81.4},
                           {"340m_transformer", 65536, 745.6, 50.6},
                           {"1.3b_deltanet", 32768, 499.7, 75.7}};
  Measurements out;
  out.copy_bytes_per_s = 4.27e12;
  for (const Row& row : kRows) {
    MeasuredStep step;
    step.config = row.config;
    step.tokens = row.tokens;
    step.step_s = row.step_ms * 1e-3;
    step.memory_bytes = row.memory_gib * (1 << 30);
    out.steps.push_back(step);
  }
  return out;
}

}  // namespace osdn::bench
