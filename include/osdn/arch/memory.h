#pragma once
// The memory that a training step takes, from the configuration alone. It
// follows what the program holds at its fullest moments, part by part;
// docs/memory.md has the parts, and how far measured figures are from them.

#include <cstdint>
#include <optional>
#include <string>

#include "osdn/arch/kept_tensors.h"
#include "osdn/config/config.h"

namespace osdn::arch {

/// What a step's memory depends on beside the model.
struct Pass {
  Machine machine = Machine::kGpu;
  Compute compute = Compute::kBF16;
  std::int64_t tokens = 0;         ///< of a micro-batch
  std::int64_t documents = 1;      ///< in it
  std::int64_t micro_batches = 1;  ///< of a step, on each rank
  bool recompute = false;
  bool recorded = false;  ///< as a CUDA graph
};

/// That of a run: rows of data.context_length / 4 tokens a document, since the
/// data is not read. `ranks` as in dry_run_report.
Pass pass_of(const config::Config& config, Machine machine, Compute compute,
             int ranks = 0);

/// Bytes at the moment when most are held.
struct Memory {
  double weights = 0;    ///< with bf16's fp32 masters
  double gradients = 0;  ///< those that are there at that moment
  double optimizer = 0;  ///< AdamW's two moments
  double buckets = 0;    ///< of gradients on their way between ranks
  double activations = 0;
  double temporaries = 0;
  std::string moment;  ///< "the loss", "the backward of layer 23's MLP"
  /// Beside tensors, an allowance: CUDA, NCCL and what LibTorch's allocator
  /// leaves unused; on a CPU the program and what glibc's leaves.
  double program = 0;

  /// Of tensors, which is what osdn-bench train shows of a GPU.
  double total() const {
    return weights + gradients + optimizer + buckets + activations +
           temporaries;
  }
};
Memory estimate_memory(const config::ModelConfig& model, const Pass& pass);

/// That of each of so many ranks.
Memory estimate_rank_memory(const config::ModelConfig& model,
                            const config::DistConfig& dist, const Pass& pass,
                            int ranks);

/// What to change where memory runs out: "lower data.sequence_length, or ...".
std::string memory_advice(const config::TrainingConfig& training);

}  // namespace osdn::arch
