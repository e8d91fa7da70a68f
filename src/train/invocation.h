#pragma once
// invocations.jsonl of a run folder: how, when and with what it was started.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace osdn::train {

/// Appends one line: time (UTC), command, version, commit, the step that the
/// start goes on from (0: the beginning) and the checkpoint, "" for none.
void record_invocation(const std::filesystem::path& run_dir,
                       const std::vector<std::string>& command_line,
                       std::int64_t from_step,
                       const std::filesystem::path& checkpoint);

}  // namespace osdn::train
