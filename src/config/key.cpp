// What a key says about itself.

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "json_document.h"
#include "key_table.h"
#include "osdn/core/concat.h"

namespace osdn::config {

namespace {

std::string limit_text(const Limit& limit, Key::Kind kind) {
  const bool whole =
      kind == Key::Kind::kInteger || kind == Key::Kind::kIntegers;
  if (whole && limit.value < 9e15) {
    return concat(static_cast<std::int64_t>(limit.value));
  }
  return concat(limit.value);
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    out += i == 0 ? "" : i + 1 == words.size() ? " or " : ", ";
    out += concat("\"", words[i], "\"");
  }
  return out;
}

bool names_a_file(const std::string& text) {
  return text.find_first_not_of(" \t\r\n\v\f") != std::string::npos &&
         text.find('\0') == std::string::npos;
}

}  // namespace

std::string Key::section() const {
  const std::size_t dot = path.rfind('.');
  return dot == std::string::npos ? "" : path.substr(0, dot);
}

std::string Key::name() const {
  return path.substr(path.rfind('.') + 1);
}

std::string Key::pointer() const {
  return pointer_of(path);
}

std::string Key::allowed() const {
  std::string text;
  switch (kind) {
    case Kind::kBoolean:
      return "true or false";
    case Kind::kUnsigned:
      return "an integer from 0 to 18446744073709551615";
    case Kind::kString:
      return is_path ? concat("a string that names a path: not blank, no NUL",
                              required ? "" : ", or \"\"")
                     : "a string";
    case Kind::kStrings:
      return concat("a list of strings that name paths: ",
                    required ? "at least one, " : "", "none blank, no NUL");
    case Kind::kChoice:
      return joined(choices);
    case Kind::kInteger:
      text = "an integer";
      break;
    case Kind::kIntegers:
      text = "a list of integers";
      break;
    case Kind::kNumber:
      text = "a number";
      break;
  }
  if (low) {
    text += concat(low->open ? " above " : " from ", limit_text(*low, kind));
  }
  if (high) {
    text += concat(low && low->open ? " and" : "",
                   high->open         ? " to below "
                   : low && low->open ? " up to "
                                      : " to ",
                   limit_text(*high, kind));
  } else if (low && !low->open) {
    text += " on";
  }
  return text;
}

bool Key::within(double number) const {
  const bool low_ok =
      !low || (low->open ? number > low->value : number >= low->value);
  const bool high_ok =
      !high || (high->open ? number < high->value : number <= high->value);
  return low_ok && high_ok && std::isfinite(number);
}

bool Key::admits(const Value& value) const {
  return std::visit(
      [this](const auto& held) {
        using T = std::remove_cvref_t<decltype(held)>;
        if constexpr (std::is_same_v<T, std::string>) {
          return kind == Kind::kChoice
                     ? std::find(choices.begin(), choices.end(), held) !=
                           choices.end()
                     : !is_path || names_a_file(held) ||
                           (!required && held.empty());
        } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
          return (!required || !held.empty()) &&
                 std::all_of(held.begin(), held.end(), names_a_file);
        } else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
          return std::all_of(held.begin(), held.end(), [this](auto item) {
            return within(static_cast<double>(item));
          });
        } else {
          return within(static_cast<double>(held));
        }
      },
      value);
}

std::string pointer_of(std::string_view path) {
  std::string pointer = concat("/", path);
  std::replace(pointer.begin(), pointer.end(), '.', '/');
  return pointer;
}

std::string to_text(const Value& value) {
  return std::visit(
      [](const auto& held) -> std::string {
        using T = std::remove_cvref_t<decltype(held)>;
        if constexpr (std::is_same_v<T, std::string>) {
          return quoted(held);
        } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
          std::string out = "[";
          for (const std::string& item : held) {
            out += concat(out.size() > 1 ? ", " : "", quoted(item));
          }
          return out + "]";
        } else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
          std::string out = "[";
          for (const std::int64_t item : held) {
            out += concat(out.size() > 1 ? ", " : "", item);
          }
          return out + "]";
        } else {
          return concat(held);
        }
      },
      value);
}

}  // namespace osdn::config
