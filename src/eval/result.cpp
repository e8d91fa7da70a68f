#include "osdn/eval/result.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/hash.h"
#include "osdn/report/format.h"
#include "osdn/report/table.h"

namespace osdn::eval {

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

ordered_json text_or_null(const std::string& text) {
  return text.empty() ? ordered_json() : ordered_json(text);
}

template <typename Number>
ordered_json number_or_null(const std::optional<Number>& number) {
  return number.has_value() ? ordered_json(*number) : ordered_json();
}

// What the value depends on; the order is that of the documented table.
ordered_json conditions(const Result& result) {
  return {{"task", result.task},
          {"metric", result.metric},
          {"n", result.n},
          {"protocol", text_or_null(result.protocol)},
          {"model", text_or_null(result.model)},
          {"model_config_hash", text_or_null(result.model_config_hash)},
          {"weights_hash", text_or_null(result.weights_hash)},
          {"tokenizer", text_or_null(result.tokenizer)},
          {"tokenizer_hash", text_or_null(result.tokenizer_hash)},
          {"data", text_or_null(result.data)},
          {"data_hash", text_or_null(result.data_hash)},
          {"requests_hash", text_or_null(result.requests_hash)},
          {"bos", result.bos},
          {"max_len", number_or_null(result.max_len)},
          {"truncated", result.truncated},
          {"dropped", result.dropped},
          {"empty_cont", result.empty_cont},
          {"no_label", result.no_label},
          {"dtype", text_or_null(result.dtype)},
          {"batch_tokens", result.batch_tokens},
          {"seed", number_or_null(result.seed)},
          {"limit", number_or_null(result.limit)},
          {"settings", result.settings.empty()
                           ? ordered_json()
                           : ordered_json::parse(result.settings)}};
}

ordered_json to_json(const Result& result) {
  ordered_json object;
  const ordered_json given = conditions(result);
  for (const auto& [key, value] : given.items()) {
    object[key] = value;
    if (key == "metric") {
      object["value"] = result.value;
      object["stderr"] = number_or_null(result.stderr_);
    }
  }
  object["config_hash"] = config_hash(result);
  if (!result.detail.empty()) {
    try {
      object["detail"] = ordered_json::parse(result.detail);
    } catch (const json::exception& error) {
      throw Error(concat("the detail of ", result.task, " ", result.metric,
                         " is not JSON: ", error.what()));
    }
  }
  return object;
}

std::string max_len_text(const Result& result) {
  return result.max_len.has_value() ? concat(*result.max_len) : "none";
}

}  // namespace

int value_decimals(double value) {
  int decimals = 5;
  for (double limit = 10; limit <= 1e5 && std::fabs(value) >= limit;
       limit *= 10) {
    --decimals;
  }
  return decimals;
}

std::string format_value(double value) {
  if (!std::isfinite(value)) {
    return report::format_fixed(value, 0);
  }
  const double size = std::fabs(value);
  return size >= 1e7 || (size > 0 && size < 1e-4)
             ? report::format_scientific(value, 5)
             : report::format_fixed(value, value_decimals(value));
}

std::string canonical_hash(const json& value) {
  return sha256(value.dump());
}

std::string config_hash(const Result& result) {
  // json sorts its keys, ordered_json does not.
  json object = json::parse(conditions(result).dump());
  // Where a file lies does not matter once its content is named.
  for (const auto& [name, hash] : {std::pair{"model", "weights_hash"},
                                   std::pair{"tokenizer", "tokenizer_hash"},
                                   std::pair{"data", "data_hash"}}) {
    if (!object[hash].is_null()) {
      object.erase(name);
    }
  }
  return canonical_hash(object);
}

std::string to_json(const EvalReport& report) {
  ordered_json results = ordered_json::array();
  for (const Result& result : report.results) {
    results.push_back(to_json(result));
  }
  const ordered_json object = {
      {"format", "osdn-eval/1"},   {"version", report.version},
      {"date", report.date},       {"device", report.device},
      {"command", report.command}, {"results", results}};
  return object.dump(2) + "\n";
}

std::string results_table(std::span<const Result> results) {
  std::string out;
  std::set<std::string> lines;
  std::set<std::string> names;
  for (const Result& result : results) {
    const std::string line =
        concat("model ", result.model, ", tokenizer ",
               result.tokenizer.empty() ? "none" : result.tokenizer, ", dtype ",
               result.dtype.empty() ? "none" : result.dtype, ", max_len ",
               max_len_text(result), "\n");
    names.insert(result.model);
    if (lines.insert(line).second) {
      out += line;
    }
  }
  out += "accuracies and shares as fractions of 1\n\n";

  using report::Align;
  std::vector<report::Column> columns = {{"task", Align::kLeft},
                                         {"protocol", Align::kLeft},
                                         {"metric", Align::kLeft},
                                         {"value"},
                                         {"stderr"},
                                         {"n"},
                                         {"truncated"}};
  const bool many_models = names.size() > 1;
  if (many_models) {
    columns.insert(columns.begin(), {"model", Align::kLeft});
  }
  report::Table table(columns);
  bool limited = false;
  for (const Result& result : results) {
    limited = limited || result.limit.has_value();
    std::vector<std::string> row = {
        result.task + (result.limit.has_value() ? " *" : ""),
        result.protocol.empty() ? "-" : result.protocol,
        result.metric,
        format_value(result.value),
        result.stderr_.has_value() ? format_value(*result.stderr_) : "-",
        concat(result.n),
        concat(result.truncated)};
    if (many_models) {
      row.insert(row.begin(), result.model);
    }
    table.add_row(std::move(row));
  }
  out += table.text();
  if (limited) {
    out += "\n* --limit: only the first documents of the task\n";
  }
  return out;
}

}  // namespace osdn::eval
