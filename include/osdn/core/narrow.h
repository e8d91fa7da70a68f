#pragma once
// Conversions between number types that refuse to lose anything.

#include <concepts>
#include <string_view>
#include <type_traits>
#include <utility>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"

namespace osdn {

/// `value` as an integer of type To; throws Error with the value when it does
/// not fit. `what` names the quantity in the message.
template <std::integral To, std::integral From>
To narrow(From value, std::string_view what = "value") {
  if (!std::in_range<To>(value)) {
    throw Error(concat(what, " ", value, " does not fit ",
                       std::is_signed_v<To> ? "a signed" : "an unsigned",
                       " integer of ", 8 * sizeof(To), " bits"));
  }
  return static_cast<To>(value);
}

/// a / b for integers that must divide; throws Error otherwise.
template <std::integral T>
T div_exact(T a, T b, std::string_view what = "value") {
  if (b == 0 || a % b != 0) {
    throw Error(concat(what, " ", a, " is not a multiple of ", b));
  }
  return a / b;
}

/// a / b rounded up, for a >= 0 and b > 0.
template <std::integral T>
constexpr T div_up(T a, T b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

}  // namespace osdn
