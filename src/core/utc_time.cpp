#include "osdn/core/utc_time.h"

#include <array>
#include <ctime>

namespace osdn {

namespace {

std::string now(const char* format) {
  const std::time_t seconds = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 64> buffer{};
  return {buffer.data(),
          std::strftime(buffer.data(), buffer.size(), format, &parts)};
}

}  // namespace

std::string utc_now() {
  return now("%Y-%m-%dT%H:%M:%SZ");
}

std::string utc_now_in_name() {
  return now("%Y%m%dT%H%M%SZ");
}

}  // namespace osdn
