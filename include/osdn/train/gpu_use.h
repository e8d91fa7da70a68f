#pragma once
// What a run makes of its GPU: memory, model FLOP utilisation, and what to do
// when the memory does not suffice.

#include <functional>
#include <string>

#include "osdn/config/config.h"

namespace osdn::train {

/// "at most 62.6 of 140.4 GiB of GPU memory, model FLOP utilisation 44.8 % (of
/// 989 TFLOP/s)"; the utilisation is "n/a" for a GPU whose peak is not known
/// unless peak_tflops > 0 says it. Empty without a GPU.
std::string gpu_use(const config::Config& config, double tokens_per_s,
                    double peak_tflops);

/// Runs `work`; a lack of GPU memory becomes an Error (kFailure) that says what
/// was held and which keys to lower.
void with_memory_advice(const config::Config& config,
                        const std::function<void()>& work);

}  // namespace osdn::train
