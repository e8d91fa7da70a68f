// The body of decay_block.h, compiled once per instruction set as
// small_gemm_body.h is, and after it: it uses that file's VectorOf.

namespace osdn::ops::OSDN_VECTOR_TARGET {
namespace {

template <typename T>
using Vector = typename VectorOf<T>::type;

template <typename T>
[[gnu::always_inline]] inline Vector<T> load(const T* from) {
  return *reinterpret_cast<const Vector<T>*>(from);
}
template <typename T>
[[gnu::always_inline]] inline void store(T* to, Vector<T> value) {
  *reinterpret_cast<Vector<T>*>(to) = value;
}

template <typename T>
void block_pairs(const DecayBlock<T>& block, const T* x1, const T* x2,
                 const T* y, T* y_transposed, T* m1, T* m2) {
  constexpr std::int64_t kParts = kSubBlock / kVectorLength<T>;
  Vector<T> lane[kParts];
  for (std::int64_t j = 0; j < kSubBlock; ++j) {
    lane[j / kVectorLength<T>][j % kVectorLength<T>] = static_cast<T>(j);
  }
  for (std::int64_t i = 0; i < block.rows; ++i) {
    const T* alpha = block.alpha + i * block.width;
    const T* x1_row = x1 + i * block.width;
    const T* x2_row = x2 + i * block.width;
    const T* y_row = y + i * block.width;
    for (std::int64_t part = 0; part < kParts; ++part) {
      const auto is_new = lane[part] == static_cast<T>(i);
      Vector<T> sum1 = {}, sum2 = {};
      T* column = y_transposed + part * kVectorLength<T>;
      for (std::int64_t c = 0; c < block.channels; ++c) {
        T* at = column + c * block.stride;
        const Vector<T> fresh = Vector<T>{} + y_row[c];
        const Vector<T> seen = is_new ? fresh : load(at) * alpha[c];
        store(at, seen);
        sum1 += x1_row[c] * seen;
        sum2 += x2_row[c] * seen;
      }
      store(m1 + i * block.stride + part * kVectorLength<T>, sum1);
      store(m2 + i * block.stride + part * kVectorLength<T>, sum2);
    }
  }
}

template <typename T>
void block_left(const DecayBlock<T>& block, const T* m1, const T* m2,
                const T* y, T* y_at_end, T* out1, T* out2) {
  for (std::int64_t c = 0; c < block.width; c += kVectorLength<T>) {
    Vector<T> seen[kSubBlock];  // y_j decayed to row i
    for (std::int64_t i = 0; i < block.rows; ++i) {
      const std::int64_t row = i * block.width + c;
      const Vector<T> alpha = load(block.alpha + row);
      Vector<T> sum1 = load(out1 + row), sum2 = load(out2 + row);
      const T* weight1 = m1 + i * block.stride;
      const T* weight2 = m2 + i * block.stride;
      for (std::int64_t j = 0; j < i; ++j) {
        seen[j] *= alpha;
        sum1 += weight1[j] * seen[j];
        sum2 += weight2[j] * seen[j];
      }
      seen[i] = load(y + row);
      sum1 += weight1[i] * seen[i];
      sum2 += weight2[i] * seen[i];
      store(out1 + row, sum1);
      store(out2 + row, sum2);
    }
    for (std::int64_t j = 0; j < block.rows; ++j) {
      store(y_at_end + j * block.width + c, seen[j]);
    }
  }
}

template <typename T>
void block_right(const DecayBlock<T>& block, const T* m, const T* x,
                 T* x_at_start, T* out) {
  for (std::int64_t c = 0; c < block.width; c += kVectorLength<T>) {
    Vector<T> sum[kSubBlock];
    for (std::int64_t j = 0; j < block.rows; ++j) {
      sum[j] = load(out + j * block.width + c);
    }
    for (std::int64_t i = 0; i < block.rows; ++i) {
      Vector<T> seen = load(x + i * block.width + c);  // from row j
      for (std::int64_t j = i; j >= 0; --j) {
        sum[j] += m[i * block.stride + j] * seen;
        seen *= load(block.alpha + j * block.width + c);
      }
      store(x_at_start + i * block.width + c, seen);
    }
    for (std::int64_t j = 0; j < block.rows; ++j) {
      store(out + j * block.width + c, sum[j]);
    }
  }
}

/// exp(x) = 2^n exp(r), |r| <= ln 2 / 2; the polynomial is Taylor's to the
/// seventh power, its remainder 5e-9 at the ends of r.
[[gnu::always_inline]] inline Vector<float> exp_of(Vector<float> x) {
  typedef std::int32_t Int __attribute__((vector_size(64)));
  constexpr float kBeyond = 150.0f;  // 2^-216 and 2^216: zero and infinity
  x = x < -kBeyond ? Vector<float>{} - kBeyond : x;
  x = x > kBeyond ? Vector<float>{} + kBeyond : x;
  const Int n = __builtin_convertvector(
      x * 1.44269504f +
          (x < 0.0f ? Vector<float>{} - 0.5f : Vector<float>{} + 0.5f),
      Int);
  const Vector<float> nf = __builtin_convertvector(n, Vector<float>);
  // ln 2 in two parts: n times the first is exact.
  const Vector<float> r = (x - nf * 0.693359375f) - nf * -2.12194440e-4f;
  Vector<float> p = r * (1.0f / 5040) + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  // Two factors, so that results below the smallest normal number are right.
  const Int half = n >> 1;
  const Int first = (half + 127) << 23, second = (n - half + 127) << 23;
  return p * reinterpret_cast<Vector<float>>(first) *
         reinterpret_cast<Vector<float>>(second);
}

void exp_all_f32(std::int64_t n, const float* x, float* out) {
  std::int64_t i = 0;
  for (; i + kVectorLength<float> <= n; i += kVectorLength<float>) {
    store(out + i, exp_of(load(x + i)));
  }
  if (i == n) return;
  float rest[kVectorLength<float>] = {};
  for (std::int64_t j = i; j < n; ++j) rest[j - i] = x[j];
  store(rest, exp_of(load(rest)));
  for (std::int64_t j = i; j < n; ++j) out[j] = rest[j - i];
}

void exp_all_f64(std::int64_t n, const double* x, double* out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = std::exp(x[i]);
}

}  // namespace

VectorTable table() {
  return {{gemm<float, false>, gemm<float, true>, exp_all_f32,
           block_pairs<float>, block_left<float>, block_right<float>},
          {gemm<double, false>, gemm<double, true>, exp_all_f64,
           block_pairs<double>, block_left<double>, block_right<double>}};
}

}  // namespace osdn::ops::OSDN_VECTOR_TARGET
