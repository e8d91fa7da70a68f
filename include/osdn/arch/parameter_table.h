#pragma once
// Every parameter of a model as a table, derived from the configuration alone:
// names and shapes of layers.md 7, initial values of layers.md 1, 4, 5, 6,
// decay groups of layers.md 1. The model is built from this table, checkpoints
// are checked against it, and --dry-run counts with it, so the three cannot
// disagree. No LibTorch here.

#include <cstdint>
#include <string>
#include <vector>

#include "osdn/config/config.h"

namespace osdn::arch {

/// How a parameter gets its first value.
enum class Init {
  kNormal,      ///< N(0, initializer_range^2)
  kOnes,
  kZeros,
  kConstant,    ///< `value`
  kLogUniform,  ///< A_log: log U(value, value2); a draw of 0 is drawn again
  kTimeStep,    ///< dt_bias: inverse softplus of a log-uniform dt (layers.md 4)
};

/// Which part of the printed count a parameter belongs to.
enum class Part { kEmbedding, kAttention, kConvolution, kPreconditioner, kMlp,
                  kNorm, kHead };

/// Why a parameter is or is not decayed.
enum class Decay {
  kAlways,     ///< matrices and an untied head
  kOptional,   ///< freed by optimizer.decay_exempt
  kNever,      ///< d0, W_r, b_r
};

struct Parameter {
  std::string name;                  ///< as in the safetensors file
  std::vector<std::int64_t> shape;
  Part part;
  Init init = Init::kNormal;
  double value = 0;
  double value2 = 0;
  Decay decay = Decay::kAlways;
  bool keep_fp32 = false;            ///< A_log, dt_bias, d0, b_r, norms: layers.md 1

  std::int64_t numel() const;
};

/// In checkpoint order: embedding, layers 0..L-1, final norm, head.
std::vector<Parameter> parameter_table(const config::ModelConfig& model);

}  // namespace osdn::arch
