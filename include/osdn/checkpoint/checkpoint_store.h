#pragma once
// The checkpoints of a run: folders step_000000100, step_000000200, ...
//
//   CheckpointStore store(run_dir / kCheckpointFolder, {.keep_last = 3});
//   const SaveResult result = store.save(step, parts);   // result.problem
//   const LatestCheckpoint latest = store.find_latest(); // latest.found
//   SafetensorsFile weights(latest.found->path / "model.safetensors");
//
// A checkpoint appears whole or not at all: its files are written into
// step_000000100.tmp-<process>, each synced, the manifest last; then the folder
// is renamed and its parent synced. Whatever a kill leaves behind has another
// name than a checkpoint and is removed by the next save. One process saves at
// a time (RunLock); any number may look.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "osdn/checkpoint/manifest.h"
#include "osdn/checkpoint/safetensors.h"
#include "osdn/checkpoint/write_progress.h"
#include "osdn/core/tensor_view.h"

namespace osdn::checkpoint {

/// Which checkpoints stay when a new one is saved.
struct Retention {
  std::int64_t keep_last = 3;   ///< the newest ones; at least 1
  std::int64_t keep_every = 0;  ///< multiples of this stay for good; 0: none
};

/// A safetensors file of a checkpoint.
struct TensorPart {
  std::string file;
  std::vector<TensorView> tensors{};
  Metadata metadata{};
};

/// Any other file of a checkpoint, JSON as a rule.
struct TextPart {
  std::string file;
  std::string text{};
};

struct CheckpointParts {
  std::vector<TensorPart> tensors{};
  std::vector<TextPart> texts{};
  /// Why the caller knows that the state is bad ("loss is nan"); empty if it
  /// does not. Tensors are scanned for NaN and infinity in any case.
  std::string known_bad{};
};

/// Why the state must not be kept: what the caller knows, or the first NaN or
/// infinity in a tensor; empty for none.
std::string find_fault(const CheckpointParts& parts,
                       WriteProgress* progress = nullptr);

/// Writes and syncs the parts' files; the entries of a manifest for them.
/// Throws Error.
std::vector<ManifestFile> write_parts(const std::filesystem::path& folder,
                                      const CheckpointParts& parts,
                                      WriteProgress* progress = nullptr);

enum class SaveStatus {
  kSaved,
  kRefused,  ///< the state is not finite; nothing was written
  kFailed,   ///< the disk would not take it; nothing is left of it
};

struct SaveResult {
  SaveStatus status = SaveStatus::kFailed;
  std::filesystem::path path;  ///< of the checkpoint, when saved
  /// Why it was refused or failed. After kSaved: what of the tidying up went
  /// wrong, empty as a rule.
  std::string problem;
  std::vector<std::int64_t> removed;  ///< steps that rotation deleted
  std::vector<std::filesystem::path> set_aside;  ///< stale later checkpoints
  bool saved() const { return status == SaveStatus::kSaved; }
};

struct Checkpoint {
  std::filesystem::path path;
  Manifest manifest;
  std::int64_t step() const { return manifest.step; }
};

/// A checkpoint that is not sound.
struct PassedOver {
  std::filesystem::path path;
  std::string reason;
};

struct LatestCheckpoint {
  std::optional<Checkpoint> found;
  std::vector<PassedOver> passed_over;  ///< newer ones, newest first
};

class CheckpointStore {
 public:
  /// The folder is made by the first save. Throws Error for a retention that
  /// would keep nothing.
  explicit CheckpointStore(std::filesystem::path folder,
                           Retention retention = {});

  /// Saves, then tidies up: checkpoints of later steps than this one are stale
  /// (the run went back) and are set aside, old ones are deleted as the
  /// retention says, leavings of dead processes are removed. The newest sound
  /// checkpoint is never deleted. A state that is not finite or a disk that is
  /// full is not an exception but a result, so that training can go on and try
  /// again later; Error is thrown only for parts that make no sense (a negative
  /// step, a file name twice or with a folder in it). A checkpoint of the same
  /// step is replaced.
  SaveResult save(std::int64_t step, const CheckpointParts& parts,
                  WriteProgress* progress = nullptr);

  // A save in steps, for several writers that share the file system: one calls
  // begin(); all write_parts() into the folder that it gives; the one commits
  // all their files, or discards them. begin() throws what the file system
  // does.
  std::filesystem::path begin(std::int64_t step);
  SaveResult commit(std::int64_t step, std::vector<ManifestFile> files);
  void discard(std::int64_t step);

  /// The newest checkpoint whose files all have the sizes and checksums of its
  /// manifest. Changes nothing.
  LatestCheckpoint find_latest() const;

  /// The checkpoint of one step; throws Error when it is missing or damaged.
  Checkpoint open(std::int64_t step) const;

  /// Steps that have a folder, sound or not, rising.
  std::vector<std::int64_t> steps() const;

  /// Moves checkpoints of later steps into <folder>/set_aside, so that no
  /// resume can pick them up; a run that goes back to `step` calls it. Returns
  /// where they went.
  std::vector<std::filesystem::path> set_aside_after(std::int64_t step);

  std::filesystem::path path_of(std::int64_t step) const;
  const std::filesystem::path& folder() const { return folder_; }

 private:
  void tidy_up(std::int64_t saved_step, SaveResult& result);
  void rotate(std::int64_t saved_step, SaveResult& result);
  void remove_leavings() const;

  std::filesystem::path folder_;
  Retention retention_;
};

/// Checks one checkpoint folder, wherever it lies, with all checksums. Throws
/// Error (kBadInput) naming folder and damage.
Checkpoint open_checkpoint(const std::filesystem::path& path);

}  // namespace osdn::checkpoint
