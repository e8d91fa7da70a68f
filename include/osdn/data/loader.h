#pragma once
// The training data of a run, step by step.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "osdn/data/micro_batch.h"
#include "osdn/data/packing.h"
#include "osdn/data/sample_index.h"
#include "osdn/data/token_dataset.h"

namespace osdn::data {

struct LoaderOptions {
  PackingOptions packing;
  OrderOptions order;
  std::int64_t epochs = 0;          ///< 0: repeat for ever
  std::int64_t global_batch = 8;    ///< rows a step, all ranks together
  std::int64_t micro_batch = 1;     ///< rows a forward pass on one rank
  std::int64_t prefetch_steps = 2;  ///< steps made ahead; 0: no thread
  std::int64_t world_size = 1;
  std::int64_t rank = 0;
};

/// The rows [first_sample, next_sample) of the run, this rank's share of them.
struct StepBatch {
  std::int64_t first_sample = 0;
  std::int64_t next_sample = 0;  ///< where the step after this one begins
  std::int64_t first_epoch = 0;  ///< of the first row, from 0
  std::int64_t last_epoch = 0;   ///< of the last row
  /// As many on every rank. Only the last step of a run with an epoch limit can
  /// hold micro-batches with fewer rows, or none.
  std::vector<MicroBatch> micro_batches;
  std::int64_t valid_labels = 0;  ///< of the whole step, all ranks together
  std::int64_t tokens = 0;        ///< of the whole step, all ranks together
};

/// A step is a pure function of (dataset, packing, order, global_batch, first
/// sample); micro_batch, world size and rank only deal its rows out, prefetch
/// depth and threads change nothing. The index of the first sample not trained
/// on, StepBatch::next_sample, is a run's whole place in the data: a Loader
/// made with it goes on exactly there, however far the old one had read ahead.
///
/// Rows are dealt in groups of world_size * micro_batch: in each, rank r takes
/// rows [r * micro_batch, (r + 1) * micro_batch). Over all ranks each row comes
/// exactly once.
///
/// With an epoch limit the data end: the last step has the rows that are left,
/// then next_step() returns nothing.
///
/// Memory: prefetch_steps + 1 steps of 12 bytes a token, and the row tables of
/// two epochs.
class Loader {
 public:
  /// Throws Error (kUsage) for options that do not go together, among them a
  /// global_batch that world_size * micro_batch does not divide.
  Loader(std::shared_ptr<const TokenDataset> dataset,
         const LoaderOptions& options, std::int64_t first_sample);
  /// Stops the prefetch thread.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// The next step; nothing when the data are at their end. An error met while
  /// reading ahead is thrown by the call whose step it belongs to, and by every
  /// later one.
  std::optional<StepBatch> next_step();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// What decides which tokens a sample index means: the shards' payload hashes
/// and counts, packing and order. 16 hexadecimal digits, for a checkpoint to
/// compare on resume.
std::string data_fingerprint(const TokenDataset& dataset,
                             const PackingOptions& packing,
                             const OrderOptions& order);

}  // namespace osdn::data
