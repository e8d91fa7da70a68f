#include "folder_names.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>

#include "osdn/core/concat.h"

namespace osdn::checkpoint {

namespace {

constexpr std::string_view kPrefix = "step_";
constexpr std::size_t kDigits = 9;  // at least; more steps take more
constexpr std::string_view kTemporary = ".tmp-";
constexpr std::string_view kDeleted = ".del";

template <typename Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value = 0;
  const char* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (text.empty() || result.ec != std::errc() || result.ptr != end) {
    return std::nullopt;
  }
  return value;
}

bool is_alive(pid_t process) {
  return ::kill(process, 0) == 0 || errno != ESRCH;
}

}  // namespace

std::string folder_name(std::int64_t step) {
  std::string digits = concat(step);
  if (digits.size() < kDigits) {
    digits.insert(std::size_t{0}, kDigits - digits.size(), '0');
  }
  return concat(kPrefix, digits);
}

std::string temporary_name(std::int64_t step) {
  return concat(folder_name(step), kTemporary, ::getpid());
}

std::string deleted_name(std::int64_t step) {
  return concat(folder_name(step), kDeleted);
}

std::optional<std::int64_t> step_of(std::string_view name) {
  if (!name.starts_with(kPrefix)) {
    return std::nullopt;
  }
  const auto step = parse_number<std::int64_t>(name.substr(kPrefix.size()));
  // Only the one spelling: two folders cannot claim the same step.
  if (!step.has_value() || *step < 0 || folder_name(*step) != name) {
    return std::nullopt;
  }
  return step;
}

bool is_leaving(std::string_view name) {
  const std::size_t dot = name.find('.');
  if (dot == std::string_view::npos || !step_of(name.substr(0, dot))) {
    return false;
  }
  const std::string_view rest = name.substr(dot);
  if (rest == kDeleted) {
    return true;
  }
  if (!rest.starts_with(kTemporary)) {
    return false;
  }
  // A process of our own number is an earlier one: this one asks between saves.
  const auto process = parse_number<pid_t>(rest.substr(kTemporary.size()));
  return process.has_value() && *process > 0 &&
         (*process == ::getpid() || !is_alive(*process));
}

}  // namespace osdn::checkpoint
