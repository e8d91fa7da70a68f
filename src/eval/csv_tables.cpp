#include "osdn/eval/csv_tables.h"

#include <nlohmann/json.hpp>
#include <set>
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

std::string overall_text(std::span<const Result> results,
                         const std::string& task) {
  std::string text = "metric,value\n";
  for (const Result& result : results) {
    if (result.task != task) continue;
    text += concat(result.metric, ",", json(result.value).dump(), "\n");
  }
  return text;
}

}  // namespace

std::vector<CsvTable> csv_tables(std::span<const Result> results) {
  std::vector<CsvTable> tables;
  std::set<std::string> tasks;
  for (const Result& result : results) {
    if (result.detail.empty()) continue;
    const json detail = json::parse(result.detail);
    for (const auto& entry : detail.items()) {
      if (!is_table(entry.value())) continue;
      tables.push_back({concat(result.task, "_", entry.key(), ".csv"),
                        rows_text(entry.value())});
      if (tasks.insert(result.task).second) {
        tables.push_back({concat(result.task, "_overall.csv"),
                          overall_text(results, result.task)});
      }
    }
  }
  return tables;
}

}  // namespace osdn::eval
