#include "least_squares.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace osdn::bench {
namespace {

using Vector = std::vector<double>;
using Matrix = std::vector<Vector>;
using Function = std::function<Vector(const Vector&)>;

double dot(const Vector& a, const Vector& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

/// Column j: the residuals' derivative by x[j].
Matrix derivatives(const Function& f, const Vector& x) {
  constexpr double kStep = 1e-4;
  Matrix columns;
  for (std::size_t j = 0; j < x.size(); ++j) {
    Vector up = x;
    Vector down = x;
    up[j] += kStep;
    down[j] -= kStep;
    Vector column = f(up);
    const Vector low = f(down);
    for (std::size_t i = 0; i < column.size(); ++i) {
      column[i] = (column[i] - low[i]) / (2 * kStep);
    }
    columns.push_back(std::move(column));
  }
  return columns;
}

/// Solves a x = b for symmetric positive definite a (Cholesky).
Vector solve(Matrix a, Vector b) {
  const std::size_t n = b.size();
  for (std::size_t j = 0; j < n; ++j) {
    for (std::size_t k = 0; k < j; ++k) a[j][j] -= a[j][k] * a[j][k];
    a[j][j] = std::sqrt(a[j][j]);
    for (std::size_t i = j + 1; i < n; ++i) {
      for (std::size_t k = 0; k < j; ++k) a[i][j] -= a[i][k] * a[j][k];
      a[i][j] /= a[j][j];
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) b[i] -= a[i][k] * b[k];
    b[i] /= a[i][i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) b[i] -= a[k][i] * b[k];
    b[i] /= a[i][i];
  }
  return b;
}

/// J^T J with its diagonal times 1 + damping.
Matrix normal_matrix(const Matrix& columns, double damping) {
  Matrix a(columns.size(), Vector(columns.size()));
  for (std::size_t i = 0; i < columns.size(); ++i) {
    for (std::size_t j = 0; j < columns.size(); ++j) {
      a[i][j] = dot(columns[i], columns[j]);
    }
    a[i][i] = (1 + damping) * std::max(a[i][i], 1e-12);
  }
  return a;
}

/// One that beats `residuals`, or nothing left to gain.
bool improve(const Function& f, const Matrix& columns, Vector& x,
             Vector& residuals, double& damping) {
  Vector gradient;
  for (const Vector& column : columns)
    gradient.push_back(dot(column, residuals));
  for (; damping < 1e12; damping *= 4) {
    const Vector step = solve(normal_matrix(columns, damping), gradient);
    Vector next = x;
    for (std::size_t j = 0; j < x.size(); ++j) next[j] -= step[j];
    Vector there = f(next);
    const double before = dot(residuals, residuals);
    const double after = dot(there, there);
    if (after < before) {
      x = std::move(next);
      residuals = std::move(there);
      damping = std::max(damping / 8, 1e-9);
      return before - after > 1e-12 * before;
    }
  }
  return false;
}

}  // namespace

LeastSquares least_squares(const Function& residuals, Vector x, double ridge) {
  LeastSquares out;
  out.x = x;
  // Doubling e-fold what has a smaller effect than this on every point would
  // not be seen in a measurement.
  constexpr double kSeen = 1e-4;
  std::vector<std::size_t> free;
  const Matrix all = derivatives(residuals, x);
  for (std::size_t j = 0; j < x.size(); ++j) {
    const bool seen = std::any_of(all[j].begin(), all[j].end(),
                                  [](double d) { return std::abs(d) > kSeen; });
    out.determined.push_back(seen);
    if (seen) free.push_back(j);
  }
  const auto whole = [&](const Vector& part) {
    Vector full = x;
    for (std::size_t k = 0; k < free.size(); ++k) full[free[k]] = part[k];
    return full;
  };
  const Function f = [&](const Vector& part) {
    Vector all_residuals = residuals(whole(part));
    for (std::size_t k = 0; k < free.size(); ++k) {
      all_residuals.push_back(ridge * (part[k] - x[free[k]]));
    }
    return all_residuals;
  };
  Vector part;
  for (const std::size_t j : free) part.push_back(x[j]);
  Vector now = f(part);
  double damping = 1e-3;
  for (int i = 0; i < 200 && !free.empty(); ++i) {
    if (!improve(f, derivatives(f, part), part, now, damping)) break;
  }
  out.x = whole(part);
  out.residuals = residuals(out.x);
  out.deviation.assign(x.size(), 0);
  if (out.residuals.size() <= free.size()) return out;
  const double variance =
      dot(out.residuals, out.residuals) /
      static_cast<double>(out.residuals.size() - free.size());
  const Matrix normal = normal_matrix(derivatives(f, part), 1e-12);
  for (std::size_t k = 0; k < free.size(); ++k) {
    Vector unit(free.size());
    unit[k] = 1;
    out.deviation[free[k]] = std::sqrt(variance * solve(normal, unit)[k]);
  }
  return out;
}

}  // namespace osdn::bench
