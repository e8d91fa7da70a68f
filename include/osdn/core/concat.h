#pragma once
// Text from pieces, for messages: concat("got ", n, ", expected ", m).
//
// Floating-point numbers are written in the shortest form that reads back to
// the same value, booleans as "true" and "false"; everything else as operator<<
// writes it. The language's own std::format is missing from GCC 12.

#include <charconv>
#include <concepts>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>

namespace osdn {

namespace detail {

template <typename T>
void append_piece(std::string& out, const T& piece) {
  if constexpr (std::is_same_v<T, bool>) {
    out += piece ? "true" : "false";
  } else if constexpr (std::is_same_v<T, char>) {
    out += piece;
  } else if constexpr (std::integral<T> || std::floating_point<T>) {
    char buffer[64];
    const auto end = std::to_chars(buffer, buffer + sizeof(buffer), piece).ptr;
    out.append(buffer, end);
  } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    out += std::string_view(piece);
  } else {
    std::ostringstream stream;
    stream << piece;
    out += stream.str();
  }
}

}  // namespace detail

template <typename... Pieces>
std::string concat(const Pieces&... pieces) {
  std::string out;
  (detail::append_piece(out, pieces), ...);
  return out;
}

}  // namespace osdn
