#include "osdn/train/resume_rules.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"

namespace osdn::train {

namespace {

constexpr std::string_view kNotSet = "(not set)";

constexpr std::array<std::string_view, 6> kFixedKeys = {
    "data.context_length", "data.sequence_length",   "data.packing",
    "data.shuffle",        "data.mask_document_end", "training.seed"};

bool is_fixed(std::string_view key) {
  return key.starts_with("model.") ||
         std::find(kFixedKeys.begin(), kFixedKeys.end(), key) !=
             kFixedKeys.end();
}

// Where a change says nothing about the run's numbers.
bool is_said_elsewhere(std::string_view key) {
  return key == "run_dir" || key == "training.device" ||
         key == "training.dtype" || key == "training.threads";
}

void flatten(const nlohmann::json& value, const std::string& key,
             std::map<std::string, std::string>& out) {
  if (!value.is_object()) {
    out[key] = value.dump();
    return;
  }
  for (const auto& [name, inner] : value.items()) {
    flatten(inner, key.empty() ? name : concat(key, ".", name), out);
  }
}

std::map<std::string, std::string> flat(std::string_view text) {
  std::map<std::string, std::string> out;
  flatten(nlohmann::json::parse(text), "", out);
  return out;
}

}  // namespace

std::vector<KeyChange> changed_keys(std::string_view before,
                                    std::string_view after) {
  std::map<std::string, KeyChange> changes;
  for (const auto& [key, value] : flat(before)) {
    changes[key] = {key, value, std::string(kNotSet)};
  }
  for (const auto& [key, value] : flat(after)) {
    KeyChange& change = changes[key];
    if (change.key.empty()) {
      change = {key, std::string(kNotSet), value};
    } else {
      change.after = value;
    }
  }
  std::vector<KeyChange> out;
  for (const auto& [key, change] : changes) {
    if (change.before != change.after) {
      out.push_back(change);
    }
  }
  return out;
}

ResumeReport check_resumable(const std::filesystem::path& checkpoint,
                             std::string_view config_before,
                             std::string_view config_now,
                             const RunState& before, const RunState& now) {
  ResumeReport report;
  std::string problems;
  for (const KeyChange& change : changed_keys(config_before, config_now)) {
    if (is_fixed(change.key)) {
      problems += concat("\n  ", change.key, " was ", change.before,
                         " and is now ", change.after);
    } else if (!is_said_elsewhere(change.key)) {
      report.changes.push_back(change);
    }
  }
  // The fingerprint covers the order too; a key above has then said it.
  if (problems.empty() && before.data_fingerprint != now.data_fingerprint) {
    problems +=
        concat("\n  data.train holds other tokens: its fingerprint was ",
               before.data_fingerprint, " and is now ", now.data_fingerprint);
  }
  if ((before.dtype == "fp64") != (now.dtype == "fp64")) {
    problems += concat("\n  training.dtype was ", before.dtype, " and is now ",
                       now.dtype);
  }
  if (!problems.empty()) {
    throw Error(concat(checkpoint.string(),
                       ": this run cannot go on from it:", problems,
                       "\nGive these keys their old values, or start a new run "
                       "in another folder (--run-dir)."),
                ExitCode::kUsage);
  }
  const auto warn_of = [&](std::string_view what, const auto& was,
                           const auto& is) {
    if (was != is) {
      report.warnings.push_back(concat(
          what, " was ", was, " and is now ", is,
          "; losses may differ from an uninterrupted run in the last bits"));
    }
  };
  warn_of("the number of CPU threads", before.threads, now.threads);
  warn_of("the number of ranks", before.ranks, now.ranks);
  warn_of("the device", before.device, now.device);
  warn_of("the dtype", before.dtype, now.dtype);
  return report;
}

}  // namespace osdn::train
