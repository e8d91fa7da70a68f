#pragma once
// The training log: JSON Lines, one record a step, each step once.
//
// A run that was killed at step 212 and resumes from a checkpoint of step 200
// would log steps 201 to 212 twice. So opening the log for a resume takes every
// record past the resume step out of it and appends it to a side file
// (<log>.rewound.jsonl, after a line that says when and to which step): a
// reader of the log needs no rule, and nothing that was logged is lost. The
// side file is written and synced first, then the log is replaced by rename, so
// a kill in between leaves at worst a record in both files. A last line that a
// kill cut short goes the same way. docs/formats.md describes the fields.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "osdn/core/file.h"

namespace osdn::report {

struct ValidationRecord {
  double loss = 0;          ///< token-weighted mean, nats
  std::int64_t tokens = 0;  ///< valid labels that it is a mean of
  double seconds = 0;
};

struct StepRecord {
  std::int64_t step = 0;  ///< updates done, this one included
  double loss = 0;        ///< NaN is written as null
  double grad_norm = 0;   ///< before the clip
  double lr = 0;
  std::int64_t tokens = 0;  ///< since the start of the run
  double tokens_per_s = 0;
  bool skipped = false;           ///< the update was left out
  std::int64_t valid_labels = 0;  ///< of this step
  double time = 0;                ///< Unix time, seconds
  std::optional<ValidationRecord> validation{};
  /// A validation was due and a stop came before its end; null in the file.
  bool validation_owed = false;
};

/// One line, without its LF. Non-finite numbers become null: JSON has no other
/// word for them.
std::string to_json(const StepRecord& record);

/// Every step once, in rising order. Should a file hold a step twice (put
/// together by hand), the later line wins and steps past it that stand before
/// it are dropped. A last line that is cut short is a write in progress and is
/// left out. Throws Error (kBadInput) naming file and line for anything else
/// that is not a record.
std::vector<StepRecord> read_step_log(const std::filesystem::path& path);

/// Where records go that a resume takes out of the log.
std::filesystem::path rewound_path(const std::filesystem::path& log);

/// What opening the log did to it.
struct StepLogOpening {
  std::int64_t kept = 0;     ///< records that stay
  std::int64_t rewound = 0;  ///< records past the resume step, moved aside
  std::int64_t damaged = 0;  ///< lines that are no record, moved aside
  std::optional<std::int64_t> last_step;  ///< of the records that stay
  /// The last of them, when its validation is owed.
  std::optional<StepRecord> owed{};
};

class StepLog {
 public:
  /// A run that starts at the beginning: every record is moved aside.
  static constexpr std::int64_t kFromStart = -1;

  /// Opens or makes the log; records with step > resume_step are moved aside.
  /// Throws Error naming the file when that cannot be done.
  explicit StepLog(std::filesystem::path path,
                   std::int64_t resume_step = kFromStart);
  /// Tries once more to write what is pending.
  ~StepLog();
  StepLog(const StepLog&) = delete;
  StepLog& operator=(const StepLog&) = delete;

  const StepLogOpening& opening() const { return opening_; }

  /// Appends one record; its step must be past the last one (Error otherwise).
  /// A full disk does not stop training: a record that cannot be written whole
  /// is taken back and kept, and goes out before the next one. True when
  /// nothing is pending.
  bool append(const StepRecord& record);

  /// Puts `record`, of the step of opening().owed, in that record's place; call
  /// it before the first append. The file is replaced whole. Throws Error
  /// naming the file when that fails; the log is then as it was.
  void settle(const StepRecord& record);

  /// Forces the log to disk; call it before a checkpoint is saved, so that a
  /// checkpoint never knows of steps that the log does not. False when records
  /// are pending or the disk refused.
  bool sync();

  /// Why records are pending; empty when none are.
  const std::string& problem() const { return problem_; }

 private:
  bool write_pending();

  StepLogOpening opening_;
  File file_;
  std::uint64_t size_ = 0;  // bytes of whole records
  std::string pending_;
  std::string problem_;
};

}  // namespace osdn::report
