#pragma once
// Times of repeated calls.

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace osdn::bench {

/// Seconds of each of `runs` calls, after `warmup` calls that do not count:
/// between events on the GPU's stream, by the wall clock on a CPU.
std::vector<double> time_calls(const std::function<void()>& call,
                               at::Device device, int warmup, int runs);

double median(std::vector<double> values);

/// What the machine can do at most, measured: bytes a second of a large copy on
/// the device, counting reads and writes, and operations a second of a large
/// matrix product on random numbers (bf16 8192^3 on a GPU; fp32 1024^3 on a
/// CPU).
struct Limits {
  double copy_bytes_per_s = 0;
  double matrix_flops_per_s = 0;
};
Limits measure_limits(at::Device device);

}  // namespace osdn::bench
