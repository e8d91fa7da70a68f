#pragma once
// The links of the scaling model from measured runs: what it takes as given is
// found by least squares, and how far it is off is said.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "osdn/bench/scaling.h"
#include "osdn/config/reader.h"

namespace osdn::bench {

/// A step that was timed: an entry of "training" in the JSON of `osdn-bench
/// train`.
struct MeasuredStep {
  std::string config{};
  std::vector<std::string> overrides{};  ///< of its keys, as osdn-bench --set
  int ranks = 1;
  int hosts = 1;
  /// Of a step of one rank: so many took one each at the same time, and this is
  /// the slowest.
  int ranks_at_once = 1;
  std::int64_t tokens = 0;  ///< of each rank
  int micro_batches = 1;
  config::DistConfig dist{};
  bool peer = false;  ///< ranks copied from memory to memory
  double step_s = 0;
  double memory_bytes = 0;  ///< held at most by a GPU; 0: not said
};

/// An exchange that was timed: an entry of "collectives" in the JSON of
/// `osdn-bench collectives`.
struct MeasuredTransfer {
  int ranks = 0;
  int hosts = 1;
  double bytes = 0;  ///< of the whole bucket
  double seconds = 0;
  /// A reduce-scatter and an all-gather; else one of them.
  bool all_reduce = false;
  bool sums = false;  ///< adds up; a gather does not
  bool peer = false;  ///< by copies from memory to memory
};

struct Measurements {
  double copy_bytes_per_s = 0;  ///< of a GPU, read and written; 0: not said
  std::vector<MeasuredStep> steps{};
  std::vector<MeasuredTransfer> transfers{};
};

/// Reads
///
///   {"copy_bytes_per_s": 4.27e12,
///    "training": [{"config": "340m_osdn_apf.json",
///                  "set": ["training.recompute=true"],
///                  "tokens_per_step": 65536, "step_s": 0.35,
///                  "memory_bytes": 6e10, "ranks": 2, "hosts": 1,
///                  "micro_batches": 1, "reduce_dtype": "fp32",
///                  "shard_optimizer": true, "bucket_mb": 25,
///                  "exchange": "nccl"}],
///    "collectives": [{"operation": "reduce_scatter", "ranks": 2, "hosts": 1,
///                     "bytes": 2.5e7, "seconds": 1e-4, "exchange": "nccl"}]}
///
/// where tokens_per_step are those of each rank, and all but config,
/// tokens_per_step and step_s, or ranks, bytes and seconds, may be left out:
/// nothing overridden, one rank, one host, one micro-batch, what the
/// configuration says, a reduce-scatter or all-gather, and an exchange other
/// than "peer". Other keys are not looked at. Throws Error (kBadInput) with the
/// file and the place.
Measurements read_measurements(const std::filesystem::path& file);
/// Of several files, together; the copy rate is the first one's that has it.
Measurements read_measurements(const std::vector<std::filesystem::path>& files);

/// The parts of a measured step: the update moves 30 bytes a parameter at the
/// rate of a copy, the backward takes twice as long as the forward.
StepCompute split_step(const config::ModelConfig& model, double step_s,
                       double copy_bytes_per_s);

/// That of one rank alone with this configuration, whose overrides are the same
/// but for those of `dist`, for a step of `tokens` where there is one (0: any).
/// Throws Error when there is none.
MeasuredStep reference_of(const std::vector<MeasuredStep>& steps,
                          const config::LoadRequest& asked,
                          std::int64_t tokens);
/// That of one rank that the step of several is to be compared with: with the
/// same tokens, and where there is one, with the same micro-batches, and of the
/// slowest of as many ranks. Throws Error when there is none.
MeasuredStep reference_of(const std::vector<MeasuredStep>& steps,
                          const MeasuredStep& step);

/// What docs/results/h200.md has for configurations that osdn ships.
Measurements h200_measurements();

struct FittedValue {
  std::string name{};
  double value = 0;
  bool determined = false;  ///< else as it was before: no point depends on it
  /// One standard deviation as a part of the value; 0 where there are no more
  /// points than values.
  double error = 0;
};

struct FittedPoint {
  std::string what{};
  double measured_s = 0;
  double model_s = 0;
  double error() const { return model_s / measured_s - 1; }
};

struct ScalingFit {
  Cluster cluster{};
  std::vector<FittedValue> values{};
  std::vector<FittedPoint> points{};
  double rms_error = 0;  ///< of the points' error()
  double max_error = 0;
};

/// Fits bandwidth and latency of the links that the points use, and where steps
/// are among them slowdown, stall and overhead, so that the sum of squared
/// relative errors is least (Levenberg and Marquardt), with a weak pull of each
/// logarithm towards that of `start` (0.01, 20 us and 1 ms for losses that are
/// 0 there). Steps of several ranks need one of one rank with as many tokens a
/// rank (reference_of). With Algorithm::kPeer the runs by copies between
/// memories are fitted, otherwise the others. Throws Error where there is
/// nothing to fit.
ScalingFit fit_scaling(const Measurements& measured, const Cluster& start);

}  // namespace osdn::bench
