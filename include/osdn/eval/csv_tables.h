#pragma once
// The tables in results' details, for plots.

#include <span>
#include <string>
#include <vector>

#include "osdn/eval/result.h"

namespace osdn::eval {

struct CsvTable {
  std::string name;  ///< "q_geo_window_layers.csv", "niah_single_1_4096_..."
  std::string text;  ///< a line of column names, then a line a row
};

/// Every list of flat objects in a detail: "<task>_<protocol>_<key>.csv", and
/// "<task>_<protocol>_overall.csv" with metric and value of all results of a
/// task and protocol that has such a list. Each name comes once.
std::vector<CsvTable> csv_tables(std::span<const Result> results);

}  // namespace osdn::eval
