#include "preconditioner_cpu.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "chunks.h"
#include "parallel_tasks.h"

namespace osdn::ops {
namespace {

constexpr double kL2Eps = 1e-6;
constexpr double kNormFloor = 1e-6;
constexpr double kNormAdd = 1e-5;

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

/// What one token contributes, whatever d is: k_n, its square, n.
template <typename T>
struct TokenKey {
  T rstd = 1;       ///< of the fused L2 norm
  T norm = 1;       ///< n_t
  bool norm_moves;  ///< dn/d|k|^2 is 1 rather than 0
};

template <typename T>
class Chain {
 public:
  Chain(const PreconditionerSizes& sizes, const PreconditionerOptions& options,
        const PreconditionerForward<T>& data)
      : s_(sizes),
        options_(options),
        data_(data),
        eta_(static_cast<T>(options.eta)),
        lo_(static_cast<T>(options.d_min)),
        hi_(static_cast<T>(options.d_max)),
        d_(at(sizes.K)),
        k_(at(sizes.K)),
        k_sq_(at(sizes.K)),
        lam_(at(sizes.K)),
        history_(at(kChunk * sizes.K)) {}

  void forward(const Documents& documents, std::int64_t n, std::int64_t hv,
               std::int64_t chunk) {
    load_start(n, hv);
    const std::int64_t begin = documents.begin(n);
    for (std::int64_t t = begin; t < documents.end(n); ++t) {
      const std::int64_t row = (t * s_.HV + hv) * s_.K;
      if (data_.d_chunks && (t - begin) % kChunk == 0) {
        std::copy(d_.begin(), d_.end(),
                  data_.d_chunks + (chunk * s_.HV + hv) * s_.K);
        ++chunk;
      }
      if (data_.d_trace) {
        std::copy(d_.begin(), d_.end(), data_.d_trace + row);
      }
      if (data_.k_write) {
        const T* k = raw_key(t, hv);
        for (std::int64_t c = 0; c < s_.K; ++c) {
          data_.k_write[row + c] = d_[at(c)] * k[c];
        }
      }
      const TokenKey<T> key = load_key(t, hv);
      const T a = gain(t, hv, key, d_.data());
      for (std::int64_t c = 0; c < s_.K; ++c) {
        d_[at(c)] = clip(next(t, hv, a, d_[at(c)], c));
      }
    }
    if (data_.d_T) {
      std::copy(d_.begin(), d_.end(), data_.d_T + (n * s_.HV + hv) * s_.K);
    }
  }

  void backward(const Documents& documents, std::int64_t n, std::int64_t hv,
                std::int64_t first_chunk,
                const PreconditionerBackward<T>& grads) {
    const std::int64_t state = (n * s_.HV + hv) * s_.K;
    std::fill(lam_.begin(), lam_.end(), T(0));
    if (grads.grad_d_T) {
      std::copy(grads.grad_d_T + state, grads.grad_d_T + state + s_.K,
                lam_.begin());
    }
    const std::int64_t begin = documents.begin(n);
    const std::int64_t end = documents.end(n);
    const std::int64_t chunks = (end - begin + kChunk - 1) / kChunk;
    for (std::int64_t ic = chunks - 1; ic >= 0; --ic) {
      const std::int64_t t0 = begin + ic * kChunk;
      const std::int64_t t1 = std::min(t0 + kChunk, end);
      restore_history(t0, t1, hv, first_chunk + ic);
      for (std::int64_t t = t1 - 1; t >= t0; --t) {
        backward_token(t, hv, history_.data() + (t - t0) * s_.K, grads);
      }
    }
    std::copy(lam_.begin(), lam_.end(), grads.grad_d0 + state);
  }

 private:
  const T* raw_key(std::int64_t t, std::int64_t hv) const {
    return data_.k + (t * s_.H + hv / (s_.HV / s_.H)) * s_.K;
  }

  void load_start(std::int64_t n, std::int64_t hv) {
    const T* start =
        data_.d0 + ((s_.d0_per_document ? n * s_.HV : 0) + hv) * s_.K;
    std::copy(start, start + s_.K, d_.begin());
  }

  TokenKey<T> load_key(std::int64_t t, std::int64_t hv) {
    const T* raw = raw_key(t, hv);
    TokenKey<T> key;
    if (options_.l2_norm) {
      T sum = 0;
      for (std::int64_t c = 0; c < s_.K; ++c) sum += raw[c] * raw[c];
      key.rstd = T(1) / std::sqrt(sum + static_cast<T>(kL2Eps));
    }
    T energy = 0;
    for (std::int64_t c = 0; c < s_.K; ++c) {
      k_[at(c)] = raw[c] * key.rstd;
      k_sq_[at(c)] = k_[at(c)] * k_[at(c)];
      energy += k_sq_[at(c)];
    }
    switch (options_.norm) {
      case PreconditionerNorm::kFloor:
        key.norm_moves = energy > static_cast<T>(kNormFloor);
        key.norm = key.norm_moves ? energy : static_cast<T>(kNormFloor);
        break;
      case PreconditionerNorm::kAdd:
        key.norm_moves = true;
        key.norm = energy + static_cast<T>(kNormAdd);
        break;
      case PreconditionerNorm::kOff:
        key.norm_moves = false;
        key.norm = T(1);
        break;
    }
    return key;
  }

  T beta_at(std::int64_t t, std::int64_t hv) const {
    return data_.beta[t * s_.HV + hv];
  }
  T r_at(std::int64_t t, std::int64_t hv) const {
    return data_.r ? data_.r[t * s_.HV + hv] : T(1);
  }

  T energy_under(const T* d) const {
    T sum = 0;
    for (std::int64_t c = 0; c < s_.K; ++c) sum += d[c] * k_sq_[at(c)];
    return sum;
  }

  /// a: how far k^2 is added to d.
  T gain(std::int64_t t, std::int64_t hv, const TokenKey<T>& key,
         const T* d) const {
    const T s = energy_under(d);
    const T beta = beta_at(t, hv);
    return options_.beta_aware ? eta_ * beta * (T(1) - beta * s) / key.norm
                               : eta_ * (T(1) - s) / key.norm;
  }

  /// d before the clip. Both directions call this one, so that a mask of the
  /// backward is the forward's to the bit.
  T next(std::int64_t t, std::int64_t hv, T a, T d, std::int64_t c) const {
    return r_at(t, hv) * d + a * k_sq_[at(c)];
  }
  T clip(T x) const { return std::min(std::max(x, lo_), hi_); }

  void restore_history(std::int64_t t0, std::int64_t t1, std::int64_t hv,
                       std::int64_t chunk) {
    const T* start = data_.d_chunks + (chunk * s_.HV + hv) * s_.K;
    std::copy(start, start + s_.K, history_.begin());
    for (std::int64_t t = t0; t + 1 < t1; ++t) {
      const T* d = history_.data() + (t - t0) * s_.K;
      T* after = history_.data() + (t + 1 - t0) * s_.K;
      const TokenKey<T> key = load_key(t, hv);
      const T a = gain(t, hv, key, d);
      for (std::int64_t c = 0; c < s_.K; ++c) {
        after[c] = clip(next(t, hv, a, d[c], c));
      }
    }
  }

  /// math.md 4, "backward of one step"; lam_ holds dL/dd_{t+1} on entry and
  /// dL/dd_t on exit.
  void backward_token(std::int64_t t, std::int64_t hv, const T* d,
                      const PreconditionerBackward<T>& grads) {
    const std::int64_t row = (t * s_.HV + hv) * s_.K;
    const T* raw = raw_key(t, hv);
    const T* grad_k_write = grads.grad_k_write + row;
    T* grad_k = grads.grad_k + row;
    if (options_.detach) {
      for (std::int64_t c = 0; c < s_.K; ++c)
        grad_k[c] = grad_k_write[c] * d[c];
      grads.grad_beta[t * s_.HV + hv] = T(0);
      if (grads.grad_r) grads.grad_r[t * s_.HV + hv] = T(0);
      std::fill(lam_.begin(), lam_.end(), T(0));
      return;
    }
    const TokenKey<T> key = load_key(t, hv);
    const T beta = beta_at(t, hv);
    const T r = r_at(t, hv);
    const T s = energy_under(d);
    const T a = gain(t, hv, key, d);
    T lam_d = 0;
    T B = 0;
    for (std::int64_t c = 0; c < s_.K; ++c) {
      const T before_clip = next(t, hv, a, d[c], c);
      if (before_clip < lo_ || before_clip > hi_) lam_[at(c)] = T(0);
      lam_d += lam_[at(c)] * d[c];
      B += lam_[at(c)] * k_sq_[at(c)];
    }
    // da/ds = -slope / n and da/dn = -a / n.
    const T slope = options_.beta_aware ? eta_ * beta * beta : eta_;
    const T through_s = slope * B / key.norm;
    const T through_n = key.norm_moves ? a * B / key.norm : T(0);
    grads.grad_beta[t * s_.HV + hv] =
        options_.beta_aware ? B * eta_ * (T(1) - T(2) * beta * s) / key.norm
                            : T(0);
    if (grads.grad_r) grads.grad_r[t * s_.HV + hv] = lam_d;

    T k_dot = 0;
    for (std::int64_t c = 0; c < s_.K; ++c) {
      const T grad_k_sq = a * lam_[at(c)] - through_s * d[c] - through_n;
      grad_k[c] = T(2) * k_[at(c)] * grad_k_sq;
      k_dot += k_[at(c)] * grad_k[c];
      lam_[at(c)] =
          r * lam_[at(c)] - through_s * k_sq_[at(c)] + grad_k_write[c] * raw[c];
    }
    for (std::int64_t c = 0; c < s_.K; ++c) {
      if (options_.l2_norm) {
        grad_k[c] = key.rstd * (grad_k[c] - k_[at(c)] * k_dot);
      }
      grad_k[c] += grad_k_write[c] * d[c];
    }
  }

  const PreconditionerSizes s_;
  const PreconditionerOptions options_;
  const PreconditionerForward<T> data_;
  const T eta_, lo_, hi_;
  std::vector<T> d_, k_, k_sq_, lam_;
  std::vector<T> history_;  // d before each token of a chunk
};

}  // namespace

template <typename T>
void preconditioner_forward_cpu(const PreconditionerSizes& sizes,
                                const PreconditionerOptions& options,
                                const Documents& documents,
                                const PreconditionerForward<T>& data) {
  const auto offsets = chunk_offsets(documents);
  parallel_tasks(
      documents.count() * sizes.HV,
      [&] { return Chain<T>(sizes, options, data); },
      [&](Chain<T>& chain, std::int64_t task) {
        const std::int64_t n = task / sizes.HV;
        chain.forward(documents, n, task % sizes.HV, offsets[at(n)]);
      });
}

template <typename T>
void preconditioner_backward_cpu(const PreconditionerSizes& sizes,
                                 const PreconditionerOptions& options,
                                 const Documents& documents,
                                 const PreconditionerForward<T>& data,
                                 const PreconditionerBackward<T>& grads) {
  const auto offsets = chunk_offsets(documents);
  parallel_tasks(
      documents.count() * sizes.HV,
      [&] { return Chain<T>(sizes, options, data); },
      [&](Chain<T>& chain, std::int64_t task) {
        const std::int64_t n = task / sizes.HV;
        chain.backward(documents, n, task % sizes.HV, offsets[at(n)], grads);
      });
}

#define OSDN_INSTANTIATE(T)                                     \
  template void preconditioner_forward_cpu<T>(                  \
      const PreconditionerSizes&, const PreconditionerOptions&, \
      const Documents&, const PreconditionerForward<T>&);       \
  template void preconditioner_backward_cpu<T>(                 \
      const PreconditionerSizes&, const PreconditionerOptions&, \
      const Documents&, const PreconditionerForward<T>&,        \
      const PreconditionerBackward<T>&);
OSDN_INSTANTIATE(float)
OSDN_INSTANTIATE(double)
#undef OSDN_INSTANTIATE

}  // namespace osdn::ops
