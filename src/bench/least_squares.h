#pragma once
// Levenberg's and Marquardt's method for a few unknowns, with derivatives by
// differences.

#include <functional>
#include <vector>

namespace osdn::bench {

struct LeastSquares {
  std::vector<double> x{};
  std::vector<double> residuals{};
  /// One that no residual depends on is left as it was.
  std::vector<bool> determined{};
  /// Standard deviation of each, from the residuals; 0 without more residuals
  /// than determined unknowns.
  std::vector<double> deviation{};
};

/// Least sum of squares of `residuals`, which gives as many for any x, and of
/// `ridge` times each unknown's distance from where it began.
LeastSquares least_squares(
    const std::function<std::vector<double>(const std::vector<double>&)>&
        residuals,
    std::vector<double> x, double ridge);

}  // namespace osdn::bench
