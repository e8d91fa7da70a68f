#pragma once
// Timing and random data on the device.

#include <cstdint>
#include <functional>

namespace osdn::test {

/// Median time of one call in milliseconds: at least 20 timed runs after
/// warm-up, each between its own events.
double median_ms(const std::function<void()>& call, const char* name);

/// Bytes read and written per second of a large device-to-device copy.
double copy_rate();

void fill_normal_bf16(void* to, std::int64_t count, unsigned seed);
void fill_uniform(float* to, std::int64_t count, float low, float high,
                  unsigned seed);

}  // namespace osdn::test
