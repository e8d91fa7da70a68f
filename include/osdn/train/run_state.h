#pragma once
// Where a run stands, apart from weights and moments: state.json of a
// checkpoint. docs/formats.md describes the fields.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "osdn/optim/adamw_counters.h"

namespace osdn::train {

inline constexpr std::string_view kStateName = "state.json";
// Stems of model.safetensors and optimizer.safetensors, or of their shards.
inline constexpr std::string_view kWeightsStem = "model";
inline constexpr std::string_view kOptimizerStem = "optimizer";

struct RunState {
  // Progress. Every step takes one batch; not every step is an update.
  std::int64_t step = 0;            ///< batches taken
  std::int64_t next_sample = 0;     ///< first row not trained on
  std::int64_t tokens = 0;          ///< taken
  std::int64_t skipped = 0;         ///< steps left out as not finite
  std::int64_t skipped_in_row = 0;  ///< the latest ones
  std::int64_t unlabelled = 0;      ///< steps without a valid label
  double train_seconds = 0;         ///< without validation and saving
  optim::AdamWCounters optimizer;   ///< its updates drive the schedule

  // What the numbers depend on.
  std::uint64_t seed = 0;
  std::string data_fingerprint;
  std::string device;        ///< "cpu", "cuda"
  std::string dtype;         ///< "fp32", "fp64", "bf16"
  std::int64_t threads = 0;  ///< of a rank
  std::int64_t ranks = 1;
};

std::string to_json(const RunState& state);

/// Inverse of to_json. Throws Error (kBadInput) naming the file and the key
/// that is missing, of another type or of no use.
RunState read_run_state(const std::filesystem::path& file);

}  // namespace osdn::train
