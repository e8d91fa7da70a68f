#include "osdn/eval/csv_tables.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "osdn/core/concat.h"

namespace osdn::eval {
namespace {

using nlohmann::json;

bool is_table(const json& value) {
  return value.is_array() && !value.empty() && value.front().is_object();
}

/// Columns by name; numbers keep every bit.
std::string rows_text(const json& rows) {
  std::string text;
  for (const auto& column : rows.front().items()) {
    text += concat(text.empty() ? "" : ",", column.key());
  }
  for (const json& row : rows) {
    text += "\n";
    bool first = true;
    for (const auto& column : rows.front().items()) {
      text += concat(std::exchange(first, false) ? "" : ",",
                     row.value(column.key(), json()).dump());
    }
  }
  return text + "\n";
}

/// A file for each task and protocol: what is no letter, digit, underscore or
/// full stop of their names becomes a hyphen.
std::string file_name(const Result& result, const std::string& table) {
  std::string name = result.task;
  if (!result.protocol.empty()) name += "_" + result.protocol;
  for (char& c : name) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
                       (c >= 'a' && c <= 'z') || c == '_' || c == '.';
    if (!plain) c = '-';
  }
  return concat(name, "_", table, ".csv");
}

bool same_rows(const Result& a, const Result& b) {
  return a.task == b.task && a.protocol == b.protocol;
}

std::string overall_text(std::span<const Result> results, const Result& like) {
  std::string text = "metric,value\n";
  for (const Result& result : results) {
    if (!same_rows(result, like)) continue;
    text += concat(result.metric, ",", json(result.value).dump(), "\n");
  }
  return text;
}

}  // namespace

std::vector<CsvTable> csv_tables(std::span<const Result> results) {
  std::vector<CsvTable> tables;
  for (const Result& result : results) {
    if (result.detail.empty()) continue;
    const json detail = json::parse(result.detail);
    bool has_table = false;
    for (const auto& entry : detail.items()) {
      if (!is_table(entry.value())) continue;
      has_table = true;
      tables.push_back(
          {file_name(result, entry.key()), rows_text(entry.value())});
    }
    if (has_table) {
      tables.push_back(
          {file_name(result, "overall"), overall_text(results, result)});
    }
  }
  return tables;
}

}  // namespace osdn::eval
