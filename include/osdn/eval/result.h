#pragma once
// What an evaluation found, with all that the number depends on.

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace osdn::eval {

/// One metric of one task. Hashes are SHA-256 in hexadecimal but for the
/// weights'; a text that is
/// empty and a number that is absent become null.
struct Result {
  std::string task{};
  std::string metric{};
  double value = 0;
  std::optional<double> stderr_{};  ///< standard error; absent if undefined
  std::int64_t n = 0;               ///< documents or requests
  std::string protocol{};           ///< empty if there is one only

  std::string model{};
  std::string model_config_hash{};  ///< of the canonical JSON of the model
  std::string weights_hash{};       ///< XXH3-64 of the weights file
  std::string tokenizer{};
  std::string tokenizer_hash{};
  std::string data{};
  std::string data_hash{};
  std::string requests_hash{};

  bool bos = false;                       ///< a begin token in front
  std::optional<std::int64_t> max_len{};  ///< absent: not cut
  std::int64_t truncated = 0;
  std::int64_t dropped = 0;
  std::int64_t empty_cont = 0;
  std::int64_t no_label = 0;

  std::string dtype{};
  std::int64_t batch_tokens = 0;
  std::optional<std::uint64_t> seed{};  ///< absent: nothing is drawn
  std::optional<std::int64_t> limit{};

  std::string settings{};  ///< a JSON object: what else the task was told
  std::string detail{};    ///< a JSON value: per layer, per bucket, ...
};

/// SHA-256 over everything in a result that can change its value: two results
/// with one hash, from one device, have one value.
std::string config_hash(const Result& result);

/// SHA-256 of a JSON value's canonical text: keys sorted, no spaces.
std::string canonical_hash(const nlohmann::json& value);

/// Everything of one call of osdn-eval.
struct EvalReport {
  std::string version{};  ///< commit
  std::string date{};     ///< UTC
  std::string device{};
  std::string command{};
  std::vector<Result> results{};
};

/// The JSON object of --out ("osdn-eval/1"), indented, with LF at the end.
/// Throws Error when a detail is not JSON.
std::string to_json(const EvalReport& report);

/// Six significant digits and no exponent where that is readable.
std::string format_value(double value);
/// Decimals of a number of this size in format_value, where it has no exponent.
int value_decimals(double value);

/// A line on each model with its tokenizer, dtype and max_len, then one aligned
/// table, a row per (task, metric). Rows of a run with --limit are marked.
std::string results_table(std::span<const Result> results);

}  // namespace osdn::eval
