#pragma once
// Every parameter of a model as a table, derived from the configuration alone:
// names and shapes of layers.md 7, initial values of layers.md 1, 4, 5, 6,
// decay groups of layers.md 1. The model is built from this table, checkpoints
// are checked against it, and --dry-run counts with it, so the three cannot
// disagree. No LibTorch here.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "osdn/config/config.h"

namespace osdn::arch {

/// How a parameter gets its first value.
enum class Init {
  kNormal,  ///< N(0, initializer_range^2)
  kOnes,
  kZeros,
  kConstant,    ///< `value`
  kLogUniform,  ///< A_log: log U(value, value2); a draw of 0 is drawn again
  kTimeStep,    ///< dt_bias: dt + log(-expm1(-dt)), the inverse softplus of
                ///< dt = exp(U(log value, log value2)), at least 1e-4
};

/// Which part of the printed count a parameter belongs to.
enum class Part {
  kEmbedding,
  kAttention,
  kConvolution,
  kPreconditioner,
  kMlp,
  kNorm,
  kHead
};
inline constexpr std::size_t kNumParts = 7;
std::string_view name_of(Part part);

/// Why a parameter is or is not decayed.
enum class Decay {
  kAlways,    ///< matrices and an untied head
  kOptional,  ///< freed by optimizer.decay_exempt
  kNever,     ///< d0, W_r, b_r
};

struct Parameter {
  std::string name;  ///< as in the safetensors file
  std::vector<std::int64_t> shape;
  Part part;
  Init init = Init::kNormal;
  double value = 0;
  double value2 = 0;
  Decay decay = Decay::kAlways;
  bool keep_fp32 = false;  ///< A_log, dt_bias, d0, b_r, norms: layers.md 1

  std::int64_t numel() const;
};

/// In checkpoint order: embedding, layers 0..L-1, final norm, head. The
/// configuration must be valid (config/validate.h).
std::vector<Parameter> parameter_table(const config::ModelConfig& model);

/// What a model in bfloat16 holds and computes with in fp32: what stays so, and
/// the short convolutions.
bool computes_in_fp32(const Parameter& parameter);

/// True when the optimizer applies weight decay to the parameter.
bool is_decayed(const Parameter& parameter, bool decay_exempt);

/// Elements that are multiplied with every token: those of matrices but for the
/// embedding. The computation is spread over parameters as these are.
std::int64_t multiplied_elements(const Parameter& parameter);

/// Parameters of a table, by part and together.
struct Counts {
  std::array<std::int64_t, kNumParts> by_part{};
  std::int64_t total = 0;

  std::int64_t of(Part part) const {
    return by_part[static_cast<std::size_t>(part)];
  }
};
Counts count_parameters(const std::vector<Parameter>& table);

}  // namespace osdn::arch
