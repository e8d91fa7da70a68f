#include "preconditioner_cpu.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "chunks.h"
#include "dot.h"
#include "parallel_tasks.h"
#include "prefetch.h"

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
      if (t + kRowsAhead < documents.end(n)) {
        prefetch_row(raw_key(t + kRowsAhead, hv), s_.K);
        if (data_.k_write) {
          prefetch_row(data_.k_write + row + kRowsAhead * s_.HV * s_.K, s_.K);
        }
      }
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
      step(t, hv, d_.data(), d_.data());
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
        if (t - kRowsAhead >= begin) {
          const std::int64_t row = ((t - kRowsAhead) * s_.HV + hv) * s_.K;
          prefetch_row(grads.grad_k_write + row, s_.K);
          prefetch_row(grads.grad_k + row, s_.K);
        }
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
      key.rstd = T(1) / std::sqrt(dot(raw, raw, s_.K) + static_cast<T>(kL2Eps));
    }
    for (std::int64_t c = 0; c < s_.K; ++c) {
      const T k = raw[c] * key.rstd;
      k_[at(c)] = k;
      k_sq_[at(c)] = k * k;
    }
    const T energy = dot(k_.data(), k_.data(), s_.K);
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

  /// a: how far k^2 is added to d.
  T gain(T beta, const TokenKey<T>& key, T s) const {
    return options_.beta_aware ? eta_ * beta * (T(1) - beta * s) / key.norm
                               : eta_ * (T(1) - s) / key.norm;
  }

  /// One channel of d before the clip. Both directions call this one, so that
  /// the backward's mask is the forward's to the bit.
  static T unclipped(T r, T d, T a, T k_sq) { return r * d + a * k_sq; }

  /// d after token t from d before it; may be the same.
  void step(std::int64_t t, std::int64_t hv, const T* d, T* after) {
    const TokenKey<T> key = load_key(t, hv);
    const T a = gain(beta_at(t, hv), key, dot(d, k_sq_.data(), s_.K));
    const T r = r_at(t, hv), lo = lo_, hi = hi_;
    const T* k_sq = k_sq_.data();
    for (std::int64_t c = 0; c < s_.K; ++c) {
      after[c] = std::min(std::max(unclipped(r, d[c], a, k_sq[c]), lo), hi);
    }
  }

  void restore_history(std::int64_t t0, std::int64_t t1, std::int64_t hv,
                       std::int64_t chunk) {
    const T* start = data_.d_chunks + (chunk * s_.HV + hv) * s_.K;
    std::copy(start, start + s_.K, history_.begin());
    for (std::int64_t t = t0; t + 1 < t1; ++t) {
      T* d = history_.data() + (t - t0) * s_.K;
      if (t + kRowsAhead < t1) prefetch_row(raw_key(t + kRowsAhead, hv), s_.K);
      step(t, hv, d, d + s_.K);
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
    const T beta = beta_at(t, hv), r = r_at(t, hv), lo = lo_, hi = hi_;
    const T* k = k_.data();
    const T* k_sq = k_sq_.data();
    T* lam = lam_.data();
    const T s = dot(d, k_sq, s_.K);
    const T a = gain(beta, key, s);
    for (std::int64_t c = 0; c < s_.K; ++c) {
      const T before_clip = unclipped(r, d[c], a, k_sq[c]);
      lam[c] = before_clip < lo || before_clip > hi ? T(0) : lam[c];
    }
    const T B = dot(lam, k_sq, s_.K);
    // da/ds = -slope / n and da/dn = -a / n.
    const T slope = options_.beta_aware ? eta_ * beta * beta : eta_;
    const T through_s = slope * B / key.norm;
    const T through_n = key.norm_moves ? a * B / key.norm : T(0);
    grads.grad_beta[t * s_.HV + hv] =
        options_.beta_aware ? B * eta_ * (T(1) - T(2) * beta * s) / key.norm
                            : T(0);
    if (grads.grad_r) grads.grad_r[t * s_.HV + hv] = dot(lam, d, s_.K);

    for (std::int64_t c = 0; c < s_.K; ++c) {
      const T grad_k_sq = a * lam[c] - through_s * d[c] - through_n;
      grad_k[c] = T(2) * k[c] * grad_k_sq;
    }
    for (std::int64_t c = 0; c < s_.K; ++c) {
      lam[c] = r * lam[c] - through_s * k_sq[c] + grad_k_write[c] * raw[c];
    }
    if (options_.l2_norm) {
      const T k_dot = dot(k, grad_k, s_.K);
      for (std::int64_t c = 0; c < s_.K; ++c) {
        grad_k[c] = key.rstd * (grad_k[c] - k[c] * k_dot);
      }
    }
    for (std::int64_t c = 0; c < s_.K; ++c) {
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
