#pragma once
// Saves checkpoints beside training: from a copy in host memory, on a thread of
// its own, one at a time; with several ranks each writes its share, and a
// failure on one is a failure of the save on all.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "osdn/checkpoint/checkpoint_store.h"
#include "osdn/dist/world.h"
#include "osdn/train/host_state.h"

namespace osdn::train {

struct SaveOutcome {
  std::int64_t step = 0;
  checkpoint::SaveResult result;  ///< the same on all ranks
  double seconds = 0;             ///< since begin()
};

/// All calls are collective, at the same place on every rank.
class Saver {
 public:
  /// Both outlive it.
  Saver(checkpoint::CheckpointStore& store, dist::World& world);
  /// Waits for this rank's writing; among several ranks only as long as it
  /// moves.
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  /// Begins to write; no save may be under way. `texts` are rank 0's to write.
  void begin(std::int64_t step, HostState state,
             std::vector<checkpoint::TextPart> texts);
  bool under_way() const { return job_ != nullptr; }
  /// The outcome of the save under way if it is at its end.
  std::optional<SaveOutcome> poll();
  /// Waits for the save under way; nothing when there is none. Throws Error
  /// saying which file when this rank's writing has not moved for the world's
  /// time-out; a rank that is alone only warns.
  std::optional<SaveOutcome> finish();

 private:
  struct Job;
  SaveOutcome settle();

  checkpoint::CheckpointStore& store_;
  dist::World& world_;
  std::shared_ptr<Job> job_;
};

}  // namespace osdn::train
