// The vector code of each instruction set alone, not only the one that this
// processor picks: products, exponentials and decayed blocks (K6).

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "../../src/ops/vector_table.h"
#include "osdn/core/random.h"

namespace osdn::ops {
namespace {

struct Target {
  const char* name;
  bool runs_here;
  VectorTable (*table)();
};

std::vector<Target> targets() {
#if defined(__x86_64__)
  return {{"baseline", true, baseline::table},
          {"avx2",
           __builtin_cpu_supports("avx2") != 0 &&
               __builtin_cpu_supports("fma") != 0,
           avx2::table},
          {"avx512",
           __builtin_cpu_supports("avx512f") != 0 &&
               __builtin_cpu_supports("avx512dq") != 0,
           avx512::table}};
#else
  return {{"baseline", true, baseline::table}};
#endif
}

template <typename T>
const VectorFunctions<T>& functions(const VectorTable& table) {
  if constexpr (sizeof(T) == 4) {
    return table.f32;
  } else {
    return table.f64;
  }
}

template <typename T>
std::vector<T> random_values(std::uint64_t seed, std::int64_t count) {
  Xoshiro256 random(seed);
  std::vector<T> out(static_cast<std::size_t>(count));
  for (T& x : out) x = static_cast<T>(2 * random.uniform() - 1);
  return out;
}

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

template <typename T>
class VectorFunctionsTest : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(VectorFunctionsTest, Types);

// Products of 100 terms below one: rounding stays far below this.
template <typename T>
constexpr double kTolerance = sizeof(T) == 4 ? 2e-5 : 2e-14;

TYPED_TEST(VectorFunctionsTest, K6_every_gemm_matches_a_plain_loop) {
  using T = TypeParam;
  constexpr T kNaN = std::numeric_limits<T>::quiet_NaN();
  for (const Target& target : targets()) {
    if (!target.runs_here) continue;
    const VectorTable table = target.table();
    for (std::int64_t m : {0, 1, 2, 5, 6, 7, 8, 9, 16, 63}) {
      for (std::int64_t k : {0, 1, 3, 100}) {
        for (bool transposed : {false, true}) {
          for (bool subtract : {false, true}) {
            const std::int64_t n = 3 * kVectorLength<T>, ldc = n + 5;
            const auto a = random_values<T>(1, m * k);
            const auto b = random_values<T>(2, k * n);
            auto c = random_values<T>(3, m * ldc);
            for (std::int64_t i = 0; i < m; ++i) {
              for (std::int64_t j = n; j < ldc; ++j) c[at(i * ldc + j)] = kNaN;
            }
            const auto before = c;
            const Strided<T> left = transposed ? Strided<T>{a.data(), 1, m}
                                               : Strided<T>{a.data(), k, 1};
            const auto& f = functions<T>(table);
            (subtract ? f.gemm_subtract : f.gemm_add)(m, n, k, left, b.data(),
                                                      n, c.data(), ldc);
            for (std::int64_t i = 0; i < m; ++i) {
              for (std::int64_t j = 0; j < n; ++j) {
                double sum = 0;
                for (std::int64_t p = 0; p < k; ++p) {
                  sum += static_cast<double>(
                             a[at(transposed ? p * m + i : i * k + p)]) *
                         static_cast<double>(b[at(p * n + j)]);
                }
                const std::size_t e = at(i * ldc + j);
                ASSERT_NEAR(c[e], before[e] + (subtract ? -sum : sum),
                            kTolerance<T>)
                    << target.name;
              }
              for (std::int64_t j = n; j < ldc; ++j) {
                ASSERT_TRUE(std::isnan(c[at(i * ldc + j)])) << target.name;
              }
            }
          }
        }
      }
    }
  }
}

TYPED_TEST(VectorFunctionsTest, K6_every_exponential) {
  using T = TypeParam;
  for (const Target& target : targets()) {
    if (!target.runs_here) continue;
    const VectorTable table = target.table();
    std::vector<T> x{0,        T(-0.0),
                     T(-1e-8), T(-0.5),
                     T(-1),    T(-20),
                     T(-87),   T(-88),
                     T(-95),   T(-103),
                     T(-120),  T(-1000),
                     T(-1e30), -std::numeric_limits<T>::infinity()};
    for (double v = -104; v < 88; v += 0.0137) x.push_back(static_cast<T>(v));
    std::vector<T> y(x.size());
    functions<T>(table).exp_all(static_cast<std::int64_t>(x.size()), x.data(),
                                y.data());
    EXPECT_EQ(y[0], T(1));
    EXPECT_EQ(y[1], T(1));
    constexpr double kUlps = 2 * std::numeric_limits<T>::epsilon();
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double exact = std::exp(static_cast<double>(x[i]));
      ASSERT_NEAR(y[i], exact,
                  exact * kUlps + 2 * std::numeric_limits<T>::denorm_min())
          << target.name << ": exp(" << x[i] << ")";
    }
    EXPECT_EQ(y[11], T(std::exp(-1000.0)));
    EXPECT_EQ(y[13], T(0));
    T edge[3] = {std::numeric_limits<T>::infinity(),
                 std::numeric_limits<T>::quiet_NaN(), T(1000)};
    functions<T>(table).exp_all(3, edge, edge);
    EXPECT_EQ(edge[0], std::numeric_limits<T>::infinity());
    EXPECT_TRUE(std::isnan(edge[1]));
    EXPECT_EQ(edge[2], std::numeric_limits<T>::infinity());
  }
}

/// One block of random numbers; rows of `width`, matrices of stride `stride`.
template <typename T>
struct BlockData {
  std::int64_t rows, channels, width, stride = 24;
  std::vector<T> alpha, x1, x2, y, m1, m2;

  BlockData(std::int64_t r, std::int64_t k, bool decays)
      : rows(r), channels(k), width(padded<T>(k)) {
    alpha = random_values<T>(1, rows * width);
    for (T& a : alpha) a = decays ? std::abs(a) : T(1);
    x1 = random_values<T>(2, rows * width);
    x2 = random_values<T>(3, rows * width);
    y = random_values<T>(4, rows * width);
    m1 = random_values<T>(5, rows * stride);
    m2 = random_values<T>(6, rows * stride);
  }
  DecayBlock<T> block() const {
    return {rows, channels, width, stride, alpha.data()};
  }
  /// alpha_{j+1} ... alpha_i of channel c.
  double decay(std::int64_t i, std::int64_t j, std::int64_t c) const {
    double product = 1;
    for (std::int64_t t = j + 1; t <= i; ++t) {
      product *= static_cast<double>(alpha[at(t * width + c)]);
    }
    return product;
  }
};

TYPED_TEST(VectorFunctionsTest, K6_every_decayed_block_matches_a_plain_loop) {
  using T = TypeParam;
  for (const Target& target : targets()) {
    if (!target.runs_here) continue;
    const VectorTable table = target.table();
    const auto& f = functions<T>(table);
    for (std::int64_t rows : {1, 2, 7, 16}) {
      for (std::int64_t K : {1, 16, 37}) {
        SCOPED_TRACE(testing::Message()
                     << target.name << ", " << rows << " rows, K = " << K);
        const BlockData<T> d(rows, K, true);
        std::vector<T> columns(at(K * d.stride), T(0));
        std::vector<T> got1(at(rows * d.stride)), got2 = got1;
        f.block_pairs(d.block(), d.x1.data(), d.x2.data(), d.y.data(),
                      columns.data(), got1.data(), got2.data());
        std::vector<T> left1(at(rows * d.width), T(0.5)), left2 = left1;
        std::vector<T> y_at_end(left1.size()), x_at_start(left1.size());
        f.block_left(d.block(), d.m1.data(), d.m2.data(), d.y.data(),
                     y_at_end.data(), left1.data(), left2.data());
        std::vector<T> right(left1.size(), T(0.5));
        f.block_right(d.block(), d.m1.data(), d.x1.data(), x_at_start.data(),
                      right.data());
        for (std::int64_t i = 0; i < rows; ++i) {
          for (std::int64_t j = 0; j < kSubBlock; ++j) {
            double sum1 = 0, sum2 = 0;
            for (std::int64_t c = 0; j <= i && c < K; ++c) {
              const double y = d.decay(i, j, c) * d.y[at(j * d.width + c)];
              sum1 += d.x1[at(i * d.width + c)] * y;
              sum2 += d.x2[at(i * d.width + c)] * y;
            }
            ASSERT_NEAR(got1[at(i * d.stride + j)], sum1, kTolerance<T>);
            ASSERT_NEAR(got2[at(i * d.stride + j)], sum2, kTolerance<T>);
          }
          for (std::int64_t c = 0; c < K; ++c) {
            const std::size_t e = at(i * d.width + c);
            double sum1 = 0.5, sum2 = 0.5, sum3 = 0.5;
            for (std::int64_t j = 0; j <= i; ++j) {
              const double y = d.decay(i, j, c) * d.y[at(j * d.width + c)];
              sum1 += d.m1[at(i * d.stride + j)] * y;
              sum2 += d.m2[at(i * d.stride + j)] * y;
            }
            for (std::int64_t t = i; t < rows; ++t) {
              sum3 += d.m1[at(t * d.stride + i)] * d.decay(t, i, c) *
                      d.x1[at(t * d.width + c)];
            }
            ASSERT_NEAR(left1[e], sum1, kTolerance<T>);
            ASSERT_NEAR(left2[e], sum2, kTolerance<T>);
            ASSERT_NEAR(right[e], sum3, kTolerance<T>);
            const double at_end = d.decay(rows - 1, i, c) * d.y[e];
            ASSERT_NEAR(y_at_end[e], at_end, kTolerance<T>);
            ASSERT_NEAR(columns[at(c * d.stride + i)], at_end, kTolerance<T>);
            ASSERT_NEAR(x_at_start[e], d.decay(i, -1, c) * d.x1[e],
                        kTolerance<T>);
          }
        }
      }
    }
  }
}

TYPED_TEST(VectorFunctionsTest, K6_blocks_without_decay_have_gemm_bits) {
  using T = TypeParam;
  for (const Target& target : targets()) {
    if (!target.runs_here) continue;
    const VectorTable table = target.table();
    const auto& f = functions<T>(table);
    BlockData<T> d(16, 37, false);
    for (std::int64_t i = 0; i < 16; ++i) {
      for (std::int64_t j = i + 1; j < d.stride; ++j) {
        d.m1[at(i * d.stride + j)] = d.m2[at(i * d.stride + j)] = 0;
      }
    }
    std::vector<T> columns(at(37 * d.stride), T(0));
    std::vector<T> pairs1(at(16 * d.stride), T(0)), pairs2 = pairs1;
    f.block_pairs(d.block(), d.x1.data(), d.x2.data(), d.y.data(),
                  columns.data(), pairs1.data(), pairs2.data());
    std::vector<T> expected(at(16 * d.stride), T(0));
    f.gemm_add(16, kSubBlock, 37, {d.x1.data(), d.width, 1}, columns.data(),
               d.stride, expected.data(), d.stride);
    for (std::int64_t i = 0; i < 16; ++i) {
      for (std::int64_t j = 0; j <= i; ++j) {
        const std::size_t e = at(i * d.stride + j);
        ASSERT_EQ(pairs1[e], expected[e]) << target.name;
      }
    }
    std::vector<T> left(at(16 * d.width), T(0)), other = left, scratch = left;
    std::vector<T> gemm_left = left, right = left, gemm_right = left;
    f.block_left(d.block(), d.m1.data(), d.m2.data(), d.y.data(),
                 scratch.data(), left.data(), other.data());
    f.gemm_add(16, d.width, 16, {d.m1.data(), d.stride, 1}, d.y.data(), d.width,
               gemm_left.data(), d.width);
    EXPECT_EQ(left, gemm_left) << target.name;
    f.block_right(d.block(), d.m1.data(), d.x1.data(), scratch.data(),
                  right.data());
    f.gemm_add(16, d.width, 16, {d.m1.data(), 1, d.stride}, d.x1.data(),
               d.width, gemm_right.data(), d.width);
    EXPECT_EQ(right, gemm_right) << target.name;
  }
}

}  // namespace
}  // namespace osdn::ops
