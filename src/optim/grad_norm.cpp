#include "osdn/optim/grad_norm.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/ops/threads.h"

namespace osdn::optim {

namespace {

constexpr std::int64_t kBlock = 1 << 15;
constexpr int kLanes = 8;  // independent sums, so that additions overlap

template <typename T>
double sum_of_squares(const T* x, std::int64_t count) {
  double lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const double value = static_cast<double>(x[i + lane]);
      lanes[lane] += value * value;
    }
  }
  for (int lane = 0; i < count; ++i, ++lane) {
    const double value = static_cast<double>(x[i]);
    lanes[lane] += value * value;
  }
  double sum = 0;
  for (const double lane : lanes) {
    sum += lane;
  }
  return sum;
}

struct Block {
  const at::Tensor* gradient;
  std::int64_t begin;
  std::int64_t count;
};

double sum_of_squares(const Block& block) {
  const void* data = block.gradient->data_ptr();
  if (block.gradient->scalar_type() == at::kDouble) {
    return sum_of_squares(static_cast<const double*>(data) + block.begin,
                          block.count);
  }
  return sum_of_squares(static_cast<const float*>(data) + block.begin,
                        block.count);
}

}  // namespace

double global_norm(std::span<const at::Tensor> gradients) {
  std::vector<at::Tensor> contiguous;
  contiguous.reserve(gradients.size());
  std::vector<Block> blocks;
  for (const at::Tensor& gradient : gradients) {
    if (!gradient.defined()) {
      continue;
    }
    if (!gradient.device().is_cpu() ||
        (gradient.scalar_type() != at::kFloat &&
         gradient.scalar_type() != at::kDouble)) {
      throw Error(concat("a gradient is not float32 or float64 in CPU memory"));
    }
    contiguous.push_back(gradient.contiguous());
    const std::int64_t numel = gradient.numel();
    for (std::int64_t begin = 0; begin < numel; begin += kBlock) {
      blocks.push_back(
          {&contiguous.back(), begin, std::min(kBlock, numel - begin)});
    }
  }
  std::vector<double> partial(blocks.size());
  ops::parallel_for(static_cast<std::int64_t>(blocks.size()),
                    [&](std::int64_t first, std::int64_t last) {
                      for (std::int64_t i = first; i < last; ++i) {
                        const auto index = static_cast<std::size_t>(i);
                        partial[index] = sum_of_squares(blocks[index]);
                      }
                    });
  double sum = 0;
  for (const double part : partial) {
    sum += part;
  }
  return std::sqrt(sum);
}

double clip_factor(double norm, double max_norm) {
  if (max_norm <= 0) {
    return 1;
  }
  return std::min(1.0, max_norm / (norm + 1e-6));
}

}  // namespace osdn::optim
