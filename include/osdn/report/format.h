#pragma once
// Numbers for people: short, and of steady width, so that a line which is
// redrawn does not dance.

#include <string>

namespace osdn::report {

/// Three significant digits with a decimal prefix: 0, 7, 999, 1.23k, 45.6M,
/// 789G. Negative values keep their sign; non-finite ones are "nan", "inf",
/// "-inf".
std::string format_si(double value);

/// Seconds as 0:07, 12:34, 1:02:03, 3d 04:05:06. Rounded to whole seconds; "?"
/// for a negative or non-finite value.
std::string format_duration(double seconds);

/// Fixed point with `digits` digits after the point; "nan", "inf", "-inf" as
/// such.
std::string format_fixed(double value, int digits);

/// Scientific with `digits` digits after the point: 1.00e-03.
std::string format_scientific(double value, int digits);

}  // namespace osdn::report
