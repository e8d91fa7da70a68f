// Sums of the ranks' shards on the GPU: in rank order, to the last bit.

#include <gtest/gtest.h>

#include <vector>

#include "gpu/op_run.h"
#include "kernels/shard_sum/shard_sum.cuh"

namespace osdn::test {
namespace {

using namespace kernels;

// In fp32, part by part; bf16 rounded once. Parts of unlike size, so that
// another order would show.
Values in_order(const std::vector<Values>& parts, Element element) {
  Values sum;
  for (std::size_t i = 0; i < parts.front().size(); ++i) {
    auto total = static_cast<float>(parts.front()[i]);
    for (std::size_t part = 1; part < parts.size(); ++part) {
      total += static_cast<float>(parts[part][i]);
    }
    sum.push_back(element == Element::kBF16 ? rounded(total, element)
                                            : static_cast<double>(total));
  }
  return sum;
}

void expect_right(std::int64_t count, int parts, Element element) {
  SCOPED_TRACE(std::string(name_of(element)) + " " + std::to_string(count) +
               " elements of " + std::to_string(parts) + " parts");
  Random random(9);
  std::vector<Values> values;
  std::vector<DeviceBuffer> buffers;
  ShardSumParams p;
  p.count = count;
  p.element = element;
  p.parts = parts;
  for (int part = 0; part < parts; ++part) {
    values.push_back(random.normal(count, element, 1.0 + 100.0 * part));
    buffers.push_back(on_device(values.back(), element));
    p.part[part] = buffers.back().as<void>();
  }
  OpRun run;
  p.sum = run.output("sum", count, element);
  run.run([&] { shard_sum(p, nullptr); });
  run.expect("sum", in_order(values, element), 0.0);
}

TEST(ShardSumGpu, sums_parts_in_order_to_the_last_bit) {
  for (const Element element : {Element::kBF16, Element::kF32}) {
    for (const int parts : {1, 2, 3, 8, 16}) {
      // The last is more than one turn of all blocks.
      for (const std::int64_t count : {8, 64, 4096 + 8, 64 * 200003}) {
        if (count > 1 << 20 && parts > 3) continue;
        expect_right(count, parts, element);
      }
    }
  }
}

}  // namespace
}  // namespace osdn::test
