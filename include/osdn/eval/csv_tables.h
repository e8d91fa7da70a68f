#pragma once
// The tables in results' details, for plots.

#include <span>
#include <string>
#include <vector>

#include "osdn/eval/result.h"

namespace osdn::eval {

struct CsvTable {
  std::string name;  ///< "q_geo_layers.csv"
  std::string text;  ///< a line of column names, then a line a row
};

/// Every list of flat objects in a detail: "<task>_<key>.csv", and
/// "<task>_overall.csv" with metric and value of all results of such a task.
std::vector<CsvTable> csv_tables(std::span<const Result> results);

}  // namespace osdn::eval
