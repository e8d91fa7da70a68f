#pragma once
// What a block keeps of its forward pass for the backward, tensor by tensor, as
// the operators' nodes and LibTorch's own keep it (docs/memory.md). A tensor
// that several nodes keep is listed once, with the last that lets it go.

#include <string>
#include <string_view>
#include <vector>

#include "osdn/config/config.h"

namespace osdn::arch {

enum class Machine { kCpu, kGpu };
std::string_view name_of(Machine machine);  ///< "a CPU", "a GPU"

/// Precision of the computation.
enum class Compute { kF32, kF64, kBF16 };
std::string name_of(Compute compute);  ///< "fp32", "fp64", "bf16"

/// Bytes of a computed number: 4, 8, 2.
double element_bytes(Compute compute);
/// Of a master, and of what steers an operator: 4, 8, 4.
double master_bytes(Compute compute);

/// With which part of a block's backward a tensor goes, in that order.
enum class Release {
  kNextNorm,    ///< of what follows the block
  kMlp,         ///< SwiGLU
  kMlpNorm,     ///< the norm before it
  kOutput,      ///< output projection, norm and gate
  kRecurrence,  ///< delta rule or softmax
  kInputs,      ///< preconditioner, gates, convolutions, projections
};

struct KeptTensor {
  std::string_view name;
  Release release;
  double token_bytes;         ///< of a token
  double document_bytes = 0;  ///< of a document, beside that
};

/// Those of a block with softmax attention or the delta rule. A GPU is one that
/// runs the kernels for compute capability 9.0.
std::vector<KeptTensor> kept_tensors(const config::ModelConfig& model,
                                     bool softmax, Machine machine,
                                     Compute compute);

}  // namespace osdn::arch
