#pragma once
// How fast a configuration continues prompts on this machine: prefill in packed
// pieces, then one token of every sequence at a time from the carried state,
// greedily. Weights and prompts are random.

#include <cstdint>
#include <string>

#include "osdn/config/config.h"

namespace osdn::bench {

struct GenerateSpeed {
  std::string device;
  std::string dtype;
  double prefill_tokens_per_s = 0;
  double decode_step_s = 0;        ///< median
  double decode_tokens_per_s = 0;  ///< all sequences together
};

struct GenerateSpeedOptions {
  std::int64_t batch = 1;
  std::int64_t prompt_tokens = 2048;
  std::int64_t new_tokens = 128;
};

/// Throws Error as osdn-generate would.
GenerateSpeed time_generation(const config::Config& config,
                              const GenerateSpeedOptions& options);

}  // namespace osdn::bench
