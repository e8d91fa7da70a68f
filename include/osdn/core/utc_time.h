#pragma once
// The present moment in UTC, as files and folder names want it.

#include <string>

namespace osdn {

std::string utc_now();          ///< 2026-01-31T23:59:59Z
std::string utc_now_in_name();  ///< 20260131T235959Z

}  // namespace osdn
