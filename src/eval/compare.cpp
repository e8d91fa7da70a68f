#include "osdn/eval/compare.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "osdn/eval/result.h"
#include "osdn/report/format.h"
#include "osdn/report/table.h"

namespace osdn::eval {
namespace {

using nlohmann::json;

/// What a row's number depends on beside the model. The requests' hash comes
/// last, as it differs with most of the others.
constexpr const char* kConditions[] = {
    "protocol", "tokenizer_hash", "bos",  "max_len",      "data_hash",
    "limit",    "settings",       "seed", "requests_hash"};

struct Row {
  std::string task, metric, model;
  std::optional<double> value, standard_error;  ///< absent: null
  json conditions;
};

Row read_row(const json& entry) {
  const auto text = [&](const char* key) {
    const json& value = entry.at(key);
    return value.is_null() ? std::string() : value.get<std::string>();
  };
  const auto number = [&](const char* key) {
    const json& value = entry.at(key);
    return value.is_null() ? std::nullopt
                           : std::optional<double>(value.get<double>());
  };
  Row row{text("task"),    text("metric"),   text("model"),
          number("value"), number("stderr"), json::object()};
  for (const char* key : kConditions) {
    // Reports of before there were settings have none.
    row.conditions[key] = std::string_view(key) == "settings"
                              ? entry.value(key, json())
                              : entry.at(key);
  }
  return row;
}

std::vector<Row> read_rows(const std::filesystem::path& path) {
  const auto fail = [&](const std::string& what) {
    return Error(path.string() + ": " + what +
                     "; expected the JSON that osdn-eval --out writes",
                 ExitCode::kBadInput);
  };
  const json report = json::parse(read_file(path), nullptr, false);
  if (report.is_discarded()) throw fail("this is not JSON");
  if (!report.is_object() || !report.contains("format") ||
      report.at("format") != "osdn-eval/1") {
    throw fail("this is not an osdn-eval/1 report");
  }
  if (!report.contains("results") || !report.at("results").is_array()) {
    throw fail("it has no array \"results\"");
  }
  std::vector<Row> rows;
  for (const json& entry : report.at("results")) {
    try {
      rows.push_back(read_row(entry));
    } catch (const json::exception& error) {
      throw fail(concat("/results/", rows.size(), ": ", error.what()));
    }
  }
  return rows;
}

bool same_metric(const Row& a, const Row& b) {
  return a.task == b.task && a.metric == b.metric;
}

/// The row of a task and metric, of several protocols the same one. Another
/// protocol's is found, to be refused, where each side has one only.
const Row* find(const std::vector<Row>& rows, const Row& like,
                const std::vector<Row>& others) {
  const Row* found = nullptr;
  for (const Row& row : rows) {
    if (!same_metric(row, like)) continue;
    if (row.conditions.at("protocol") == like.conditions.at("protocol")) {
      return &row;
    }
    found = &row;
  }
  const auto count = [&](const std::vector<Row>& all) {
    return std::count_if(all.begin(), all.end(), [&](const Row& row) {
      return same_metric(row, like);
    });
  };
  return count(rows) == 1 && count(others) == 1 ? found : nullptr;
}

void check_comparable(const Row& a, const Row& b) {
  for (const char* key : kConditions) {
    if (a.conditions.at(key) == b.conditions.at(key)) continue;
    throw Error(
        concat("task ", a.task, ": ", key, " is ", a.conditions.at(key).dump(),
               " and ", b.conditions.at(key).dump(),
               "; these numbers are not comparable (--force compares "
               "them all the same)"),
        ExitCode::kBadInput);
  }
}

/// "runs/a/checkpoints/step_000000100" is the run "a".
std::string run_name(const std::string& model) {
  const std::filesystem::path path(model);
  const std::filesystem::path parent = path.parent_path();
  return (parent.filename() == "checkpoints" ? parent.parent_path() : path)
      .filename()
      .string();
}

std::string cell(const std::optional<double>& value) {
  return value ? format_value(*value) : "-";
}

/// Beyond this a difference is not chance, in 19 of 20 cases.
constexpr double kSignificant = 1.96;

std::string in_units(double ratio) {
  return report::format_fixed(ratio, 2) +
         (std::fabs(ratio) > kSignificant ? " *" : "");
}

std::vector<std::string> table_row(const Row& name, const Row* a,
                                   const Row* b) {
  std::string difference = "-", units = "-";
  if (a && b && a->value && b->value) {
    const double change = *b->value - *a->value;
    difference = report::format_fixed(
        change,
        value_decimals(std::max(std::fabs(*a->value), std::fabs(*b->value))));
    if (a->standard_error && b->standard_error) {
      const double combined =
          std::hypot(*a->standard_error, *b->standard_error);
      if (combined > 0) units = in_units(change / combined);
    }
  }
  const json& protocol = name.conditions.at("protocol");
  return {name.task,
          protocol.is_null() ? "-" : protocol.get<std::string>(),
          name.metric,
          cell(a ? a->value : std::nullopt),
          cell(b ? b->value : std::nullopt),
          difference,
          units};
}

}  // namespace

std::string compare_results(const std::filesystem::path& a,
                            const std::filesystem::path& b, bool force) {
  const std::vector<Row> rows_a = read_rows(a);
  const std::vector<Row> rows_b = read_rows(b);
  const std::string model_a = rows_a.empty() ? "" : rows_a.front().model;
  const std::string model_b = rows_b.empty() ? "" : rows_b.front().model;
  const bool named = !model_a.empty() && !model_b.empty() &&
                     run_name(model_a) != run_name(model_b);
  report::Table table({{"task", report::Align::kLeft},
                       {"protocol", report::Align::kLeft},
                       {"metric", report::Align::kLeft},
                       {named ? concat("A: ", run_name(model_a)) : "A"},
                       {named ? concat("B: ", run_name(model_b)) : "B"},
                       {"B - A"},
                       {"(B - A) / stderr"}});
  bool shared = false;
  for (const Row& row : rows_a) {
    const Row* other = find(rows_b, row, rows_a);
    if (other && !force) check_comparable(row, *other);
    shared = shared || other;
    table.add_row(table_row(row, &row, other));
  }
  for (const Row& row : rows_b) {
    if (!find(rows_a, row, rows_b))
      table.add_row(table_row(row, nullptr, &row));
  }
  if (!shared) {
    throw Error(concat(a.string(), " and ", b.string(),
                       " have no task and metric in common"),
                ExitCode::kBadInput);
  }
  const auto line = [](const char* name, const std::filesystem::path& file,
                       const std::string& model) {
    return concat(name, ": ", file.string(),
                  model.empty() ? "" : concat(" (", model, ")"), "\n");
  };
  const std::string legend =
      table.text().find(" *\n") == std::string::npos
          ? ""
          : "\n* beyond 1.96 standard errors: chance alone does that once in "
            "20 cases\n";
  return concat(line("A", a, model_a), line("B", b, model_b), "\n",
                table.text(), legend);
}

}  // namespace osdn::eval
