#pragma once
// The linear-attention layers: DeltaNet, Gated DeltaNet and Kimi Delta
// Attention, each plain, online-scaled (OSDN) or with adaptive preconditioner
// forgetting (APF). layers.md 2 to 6 gives the order of the steps. What every
// attention layer, softmax included, has in common stands here too.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "osdn/config/config.h"
#include "osdn/layers/parameter_source.h"
#include "osdn/ops/documents.h"
#include "osdn/ops/preconditioner.h"

namespace osdn::layers {

/// What a layer carries across a cut of its documents; undefined tensors stand
/// for the start of a document.
struct AttentionState {
  at::Tensor state;   ///< S [N, HV, K, V]
  at::Tensor d;       ///< [N, HV, K], with a preconditioner
  at::Tensor conv_q;  ///< [N, H K, W-1]
  at::Tensor conv_k;  ///< [N, H K, W-1]
  at::Tensor conv_v;  ///< [N, HV V, W-1]
  /// One token a document goes into these very tensors; whoever sets it holds
  /// them alone.
  bool in_place = false;

  // Softmax layers: the keys, turned to their positions, and values so far;
  // zeros behind a document that is shorter than the longest, of n tokens.
  at::Tensor cache_k;       ///< [N, n, G, D]
  at::Tensor cache_v;       ///< [N, n, G, D]
  at::Tensor cache_length;  ///< [N] tokens of each, in float64 on the CPU
};

/// What the preconditioner's recurrence sees in one layer.
struct AttentionTrace {
  std::int64_t layer;
  const ops::Documents& documents;
  at::Tensor k;     ///< [T, H, K] before the norm that the operator fuses
  at::Tensor beta;  ///< [T, HV]
  at::Tensor r;     ///< [T, HV] or undefined
  at::Tensor d0;    ///< [HV, K] or [N, HV, K]; undefined without OSDN
  ops::PreconditionerOptions options;
};

class AttentionObserver {
 public:
  virtual ~AttentionObserver() = default;
  virtual void on_attention(const AttentionTrace& trace) = 0;
};

/// One layer's mixing of positions.
class Mixer {
 public:
  virtual ~Mixer() = default;
  /// x [T, h], normalised by the block -> [T, h]. A state is continued from and
  /// replaced; it and the observer may be null.
  virtual at::Tensor forward(const at::Tensor& x,
                             const ops::Documents& documents,
                             AttentionState* state,
                             AttentionObserver* observer) const = 0;
  /// Whether one token a document, from a complete state and without gradients,
  /// minds AttentionState::in_place.
  virtual bool steps_in_place() const { return false; }
};

/// The parameters of one layer; undefined where the kind has none.
struct AttentionWeights {
  at::Tensor q_proj, k_proj, v_proj, b_proj, o_proj;
  at::Tensor q_conv, k_conv, v_conv;
  at::Tensor g_proj;                               // DeltaNet, GDN
  at::Tensor g_proj_down, g_proj_up, g_proj_bias;  // KDA
  at::Tensor a_proj, f_proj_down, f_proj_up;       // decay: GDN; KDA
  at::Tensor A_log, dt_bias;
  at::Tensor o_norm;
  at::Tensor d0, r_proj, r_bias;  // OSDN, APF; r_bias alone: r per head
};

class Attention : public Mixer {
 public:
  /// Takes its weights by name ("model.layers.N.attn....") from the source.
  Attention(const config::ModelConfig& config, std::int64_t layer,
            const ParameterSource& parameters);

  at::Tensor forward(const at::Tensor& x, const ops::Documents& documents,
                     AttentionState* state,
                     AttentionObserver* observer) const override;
  bool steps_in_place() const override;

 private:
  /// Everything that is a matrix product of the layer's input; undefined where
  /// the kind has none.
  struct Projections {
    at::Tensor q, k, v;
    at::Tensor write_strength;  ///< logits of beta [T, HV]
    at::Tensor decay;           ///< logits of g [T, HV] or [T, HV, K]
    at::Tensor retention;       ///< logits of r [T, HV]
    at::Tensor output_gate;     ///< [T, HV V]
  };
  /// What the preconditioner's recurrence waits for, the rest, or both at once.
  enum class Products { kForKeys, kRest, kAll };
  void project(const at::Tensor& x, Products products, Projections& p) const;

  at::Tensor convolve(const at::Tensor& x, const at::Tensor& weight,
                      const ops::Documents& documents, bool silu,
                      at::Tensor* state) const;
  /// [T, H K] -> [T, H, K]: convolved, activated and, where the operators do
  /// not do it, normalised.
  at::Tensor query_or_key(const at::Tensor& x, const at::Tensor& filter,
                          const ops::Documents& documents,
                          at::Tensor* state) const;
  at::Tensor value(const at::Tensor& x, const ops::Documents& documents,
                   at::Tensor* state) const;
  at::Tensor write_strength(const Projections& p) const;
  at::Tensor decay(const Projections& p) const;
  at::Tensor retention(const Projections& p, const at::Tensor& g) const;
  /// Whether ops::decode_step does this call: one token a document, a state
  /// that is complete, no gradients and nobody who looks on.
  bool takes_decode_step(const ops::Documents& documents,
                         const AttentionState* state,
                         const AttentionObserver* observer) const;
  /// Projections -> the rows that o_proj takes; moves the state on.
  at::Tensor decode(const Projections& p, AttentionState& state) const;
  /// Type and device of beta, g, r and d.
  at::TensorOptions control_options() const;

  config::ModelConfig config_;
  std::int64_t layer_;
  std::int64_t H_, HV_, K_, V_;
  ops::PreconditionerOptions preconditioner_;
  bool l2_norm_;  ///< fused in the operators; otherwise done before them
  AttentionWeights w_;
};

}  // namespace osdn::layers
