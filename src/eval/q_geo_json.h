#pragma once
// q_geo's sums on their way through an answer, and its tables in a result.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "osdn/eval/q_geo.h"

namespace osdn::eval {

/// Every bit of the sums, as text.
std::string to_text(const QGeoTables& tables);
/// Inverse of to_text.
QGeoTables q_geo_tables_from(const std::string& text);

/// {"layers": [...], "heads": [...], "relative": [...], "absolute": [...]}:
/// rows with q_geo and its companions.
nlohmann::json q_geo_detail(const QGeoTables& tables);

}  // namespace osdn::eval
