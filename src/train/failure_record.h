#pragma once
// Why a rank ended, for a run whose launcher shows it to nobody.

#include <filesystem>
#include <string>

namespace osdn::train {

/// Appends time, rank and line to the run folder's failures.log. Never throws:
/// it has been said on standard error before.
void record_failure(const std::filesystem::path& run_dir, int rank,
                    const std::string& line) noexcept;

}  // namespace osdn::train
