#pragma once
// What `osdn-train --dry-run` prints.

#include <cstdint>
#include <string>

#include "osdn/config/config.h"

namespace osdn::arch {

/// The GPU of this machine; without one, no bytes.
struct GpuFound {
  std::string name{};
  std::int64_t memory_bytes = 0;
};

/// The resolved configuration, exact parameter counts, decay groups, memory
/// and arithmetic, tokens a step and the learning rate at sample steps. Reads
/// and writes no file and needs no data. `config` must be valid. `ranks`: of a
/// launcher, which share the batch; 0 without one. Warns where a GPU's memory,
/// that of `gpu` or of the known ones, is too small.
std::string dry_run_report(const config::Config& config, int ranks = 0,
                           const GpuFound& gpu = {});

/// 374583488 -> "374,583,488".
std::string with_separators(std::int64_t number);

}  // namespace osdn::arch
