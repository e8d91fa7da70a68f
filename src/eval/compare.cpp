#include "osdn/eval/compare.h"

#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "osdn/report/table.h"

namespace osdn::eval {
namespace {

using nlohmann::json;
using Rows = std::map<std::pair<std::string, std::string>, json>;

Rows read_rows(const std::filesystem::path& path) {
  const auto fail = [&](const std::string& what) {
    return Error(path.string() + ": " + what +
                     "; expected the JSON that osdn-eval --out writes",
                 ExitCode::kBadInput);
  };
  const json report = json::parse(read_file(path), nullptr, false);
  if (report.is_discarded()) throw fail("this is not JSON");
  if (!report.is_object() || report.value("format", "") != "osdn-eval/1" ||
      !report.contains("results")) {
    throw fail("this is not an osdn-eval/1 report");
  }
  Rows rows;
  for (const json& row : report.at("results")) {
    rows[{row.at("task").get<std::string>(),
          row.at("metric").get<std::string>()}] = row;
  }
  return rows;
}

void check_comparable(const json& a, const json& b) {
  for (const char* key :
       {"protocol", "tokenizer_hash", "bos", "max_len", "data_hash", "limit"}) {
    if (a.value(key, json()) != b.value(key, json())) {
      throw Error(concat("task ", a.at("task").get<std::string>(), ": ", key,
                         " is ", a.value(key, json()).dump(), " and ",
                         b.value(key, json()).dump(),
                         "; these numbers are not comparable (--force "
                         "compares them all the same)"),
                  ExitCode::kBadInput);
    }
  }
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.5g", value);
  return text;
}

}  // namespace

std::string compare_results(const std::filesystem::path& a,
                            const std::filesystem::path& b, bool force) {
  const Rows rows_a = read_rows(a);
  const Rows rows_b = read_rows(b);
  report::Table table({{"task", report::Align::kLeft},
                       {"metric", report::Align::kLeft},
                       {"A"},
                       {"B"},
                       {"B - A"},
                       {"in stderr"}});
  std::size_t shared = 0;
  for (const auto& [key, row_a] : rows_a) {
    const auto found = rows_b.find(key);
    if (found == rows_b.end()) continue;
    const json& row_b = found->second;
    if (!force) check_comparable(row_a, row_b);
    const double va = row_a.at("value").get<double>();
    const double vb = row_b.at("value").get<double>();
    std::string units = "-";
    if (row_a.at("stderr").is_number() && row_b.at("stderr").is_number()) {
      const double combined = std::hypot(row_a.at("stderr").get<double>(),
                                         row_b.at("stderr").get<double>());
      if (combined > 0) units = number((vb - va) / combined);
    }
    table.add_row({key.first, key.second, number(va), number(vb),
                   number(vb - va), units});
    ++shared;
  }
  if (shared == 0) {
    throw Error(concat(a.string(), " and ", b.string(),
                       " have no task and metric in common"),
                ExitCode::kBadInput);
  }
  return concat("A: ", a.string(), "\nB: ", b.string(), "\n\n", table.text());
}

}  // namespace osdn::eval
