#include "osdn/layers/softmax_attention.h"

#include <ATen/OpMathType.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/pad_sequence.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <string>
#include <vector>

#include "osdn/core/error.h"
#include "osdn/ops/project.h"

namespace osdn::layers {
namespace {

/// Elements of a mask, which a piece that follows others needs: its queries go
/// in blocks small enough for that.
constexpr std::int64_t kMaskElements = std::int64_t{1} << 22;

std::vector<std::int64_t> lengths_of(const ops::Documents& documents) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t n = 0; n < documents.count(); ++n) {
    lengths.push_back(documents.end(n) - documents.begin(n));
  }
  return lengths;
}

/// How many tokens of each document came before.
std::vector<std::int64_t> past_lengths(const AttentionState* state,
                                       std::int64_t count) {
  std::vector<std::int64_t> past(static_cast<std::size_t>(count), 0);
  if (!state || !state->cache_length.defined()) return past;
  if (state->cache_length.numel() != count) {
    throw Error("softmax attention: the state is of " +
                std::to_string(state->cache_length.numel()) +
                " documents, expected " + std::to_string(count));
  }
  const at::Tensor lengths = state->cache_length.to(at::kLong);
  std::copy_n(lengths.data_ptr<std::int64_t>(), count, past.begin());
  return past;
}

struct Rotation {
  at::Tensor cosines, sines;  // [T, 1, D/2]
};

// Formed in float64 whatever the model computes in, since an angle grows with
// the position, and kept in fp32 beside 16-bit activations.
Rotation rotation_of(const ops::Documents& documents,
                     const std::vector<std::int64_t>& past, double theta,
                     std::int64_t D, const at::TensorOptions& options) {
  at::Tensor positions = at::empty({documents.tokens()}, at::kDouble);
  double* position = positions.data_ptr<double>();
  for (std::int64_t n = 0; n < documents.count(); ++n) {
    auto at_token = static_cast<double>(past[static_cast<std::size_t>(n)]);
    for (std::int64_t t = documents.begin(n); t < documents.end(n); ++t) {
      *position++ = at_token++;
    }
  }
  const at::Tensor exponents =
      at::arange(D / 2, at::kDouble) * (-2.0 / static_cast<double>(D));
  const at::Tensor angles =
      at::outer(positions, at::pow(theta, exponents)).unsqueeze(1);
  return {at::cos(angles).to(options), at::sin(angles).to(options)};
}

// [m, G, D] -> [m, H, D]: neighbouring query heads share a head.
at::Tensor spread(const at::Tensor& x, std::int64_t H) {
  const std::int64_t m = x.size(0), G = x.size(1), D = x.size(2);
  if (G == H) return x;
  return x.unsqueeze(2).expand({m, G, H / G, D}).reshape({m, H, D});
}

at::Tensor heads_first(const at::Tensor& x) {
  return x.transpose(0, 1).unsqueeze(0);
}

// q [n, H, D], k and v [m, G, D] -> [n, H, D]. The queries are the last n of m
// tokens; each sees itself and what came before.
at::Tensor attend(const at::Tensor& q, const at::Tensor& k,
                  const at::Tensor& v) {
  const std::int64_t n = q.size(0), m = k.size(0);
  const at::Tensor queries = heads_first(q);
  const at::Tensor keys = heads_first(spread(k, q.size(1)));
  const at::Tensor values = heads_first(spread(v, q.size(1)));
  at::Tensor o;
  if (n == m || n == 1) {
    o = at::scaled_dot_product_attention(queries, keys, values, {}, 0.0,
                                         /*is_causal=*/n > 1);
  } else {
    const std::int64_t rows = std::clamp<std::int64_t>(kMaskElements / m, 1, n);
    std::vector<at::Tensor> blocks;
    for (std::int64_t first = 0; first < n; first += rows) {
      const std::int64_t count = std::min(rows, n - first);
      const std::int64_t seen = m - n + first + count;
      const at::Tensor mask =
          at::ones({count, seen}, q.options().dtype(at::kBool))
              .tril(m - n + first);
      blocks.push_back(at::scaled_dot_product_attention(
          queries.narrow(2, first, count), keys.narrow(2, 0, seen),
          values.narrow(2, 0, seen), mask));
    }
    o = at::cat(blocks, 2);
  }
  return o.squeeze(0).transpose(0, 1);
}

// Each document's cache [N, n, G, D] with the new tokens behind it.
void append(at::Tensor& cache, const std::vector<std::int64_t>& past,
            std::vector<at::Tensor>& parts) {
  if (cache.defined()) {
    for (std::size_t n = 0; n < parts.size(); ++n) {
      const at::Tensor before = cache.select(0, static_cast<std::int64_t>(n));
      parts[n] = at::cat({before.narrow(0, 0, past[n]), parts[n]});
    }
  }
  cache = at::pad_sequence(parts, /*batch_first=*/true);
}

}  // namespace

at::Tensor rotate_halves(const at::Tensor& x, const at::Tensor& cosines,
                         const at::Tensor& sines) {
  const std::vector<at::Tensor> halves =
      x.to(cosines.scalar_type()).chunk(2, -1);
  return at::cat({halves[0] * cosines - halves[1] * sines,
                  halves[1] * cosines + halves[0] * sines},
                 -1)
      .to(x.scalar_type());
}

SoftmaxAttention::SoftmaxAttention(const config::ModelConfig& config,
                                   std::int64_t layer,
                                   const ParameterSource& parameters)
    : H_(config.softmax_heads()),
      G_(config.softmax_kv_heads()),
      D_(config.softmax_head_dim()),
      theta_(config.softmax.rope_theta) {
  const std::string prefix = "model.layers." + std::to_string(layer) + ".attn.";
  q_proj_ = parameters.get(prefix + "q_proj.weight");
  k_proj_ = parameters.get(prefix + "k_proj.weight");
  v_proj_ = parameters.get(prefix + "v_proj.weight");
  o_proj_ = parameters.get(prefix + "o_proj.weight");
}

at::Tensor SoftmaxAttention::forward(const at::Tensor& x,
                                     const ops::Documents& documents,
                                     AttentionState* state,
                                     AttentionObserver* /*observer*/) const {
  const std::int64_t T = x.size(0);
  const std::vector<std::int64_t> lengths = lengths_of(documents);
  std::vector<std::int64_t> past = past_lengths(state, documents.count());
  const Rotation turn =
      rotation_of(documents, past, theta_, D_,
                  x.options().dtype(at::toOpMathType(x.scalar_type())));
  const std::vector<at::Tensor> projected =
      ops::project(x, {q_proj_, k_proj_, v_proj_});
  const at::Tensor q =
      rotate_halves(projected[0].view({T, H_, D_}), turn.cosines, turn.sines);
  const at::Tensor k =
      rotate_halves(projected[1].view({T, G_, D_}), turn.cosines, turn.sines);
  const at::Tensor v = projected[2].view({T, G_, D_});

  // One call a document, so that no other can change a bit of it. Splitting
  // costs one pass in the backward; narrowing would cost one a document.
  const auto queries = q.split_with_sizes(lengths);
  auto keys = k.split_with_sizes(lengths);
  auto values = v.split_with_sizes(lengths);
  if (state) {
    append(state->cache_k, past, keys);
    append(state->cache_v, past, values);
    for (std::size_t n = 0; n < lengths.size(); ++n) past[n] += lengths[n];
    state->cache_length = at::tensor(past, at::kLong).to(at::kDouble);
  }
  std::vector<at::Tensor> outputs;
  for (std::size_t n = 0; n < lengths.size(); ++n) {
    if (lengths[n] > 0) {
      outputs.push_back(attend(queries[n], keys[n], values[n]));
    }
  }
  const at::Tensor o = outputs.empty() ? q : at::cat(outputs);
  return at::linear(o.reshape({T, H_ * D_}), o_proj_);
}

}  // namespace osdn::layers
