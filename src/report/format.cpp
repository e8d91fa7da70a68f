#include "osdn/report/format.h"

#include <array>
#include <cmath>
#include <cstdio>

namespace osdn::report {

namespace {

std::string printed(const char* format, int digits, double value) {
  std::array<char, 400> buffer{};
  const int length =
      std::snprintf(buffer.data(), buffer.size(), format, digits, value);
  return {buffer.data(), static_cast<std::size_t>(length)};
}

// printf spells them with a sign of the NaN, too.
const char* non_finite(double value) {
  if (std::isnan(value)) {
    return "nan";
  }
  return value > 0 ? "inf" : "-inf";
}

}  // namespace

std::string format_fixed(double value, int digits) {
  return std::isfinite(value) ? printed("%.*f", digits, value)
                              : non_finite(value);
}

std::string format_scientific(double value, int digits) {
  return std::isfinite(value) ? printed("%.*e", digits, value)
                              : non_finite(value);
}

std::string format_si(double value) {
  if (!std::isfinite(value)) {
    return non_finite(value);
  }
  static constexpr std::array<const char*, 7> kPrefixes = {"",  "k", "M", "G",
                                                           "T", "P", "E"};
  std::size_t prefix = 0;
  double scaled = std::fabs(value);
  // 999.5 would round up to a fourth digit.
  while (scaled >= 999.5 && prefix + 1 < kPrefixes.size()) {
    scaled /= 1000;
    ++prefix;
  }
  int digits = 0;
  if (scaled < 9.995) {
    digits = 2;
  } else if (scaled < 99.95) {
    digits = 1;
  }
  if (prefix == 0 && scaled == std::floor(scaled)) {
    digits = 0;  // a count below a thousand
  }
  const std::string sign = value < 0 ? "-" : "";
  return sign + format_fixed(scaled, digits) + kPrefixes[prefix];
}

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e15) {
    return "?";
  }
  const auto whole = static_cast<long long>(std::llround(seconds));
  const long long days = whole / 86400;
  const long long hours = whole / 3600 % 24;
  const long long minutes = whole / 60 % 60;
  const long long rest = whole % 60;
  std::array<char, 64> buffer{};
  if (days > 0) {
    std::snprintf(buffer.data(), buffer.size(), "%lldd %02lld:%02lld:%02lld",
                  days, hours, minutes, rest);
  } else if (hours > 0) {
    std::snprintf(buffer.data(), buffer.size(), "%lld:%02lld:%02lld", hours,
                  minutes, rest);
  } else {
    std::snprintf(buffer.data(), buffer.size(), "%lld:%02lld", minutes, rest);
  }
  return buffer.data();
}

}  // namespace osdn::report
