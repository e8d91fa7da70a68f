// Packing on the GPU: every element where it belongs, to the last bit, and none
// beside.

#include <gtest/gtest.h>

#include <vector>

#include "gpu/op_run.h"
#include "kernels/pack/pack.cuh"

namespace osdn::test {
namespace {

using namespace kernels;

/// Tensors of these sizes, each `gap` elements behind the one before; every
/// third has no source. `offset` elements into their memory.
void expect_right(const std::vector<std::int64_t>& counts, std::int64_t gap,
                  std::int64_t offset, Element from, Element to) {
  SCOPED_TRACE(std::string(name_of(from)) + " to " + name_of(to) + ", gap " +
               std::to_string(gap) + ", offset " + std::to_string(offset));
  Random random(3);
  std::vector<DeviceBuffer> buffers;
  buffers.reserve(counts.size());
  PackParams p;
  p.from = from;
  p.to = to;
  Values flat;
  std::vector<bool> written;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    p.count[i] = counts[i];
    p.begin[i] = static_cast<std::int64_t>(flat.size());
    const Values values = random.normal(counts[i] + offset, from);
    if (i % 3 != 2) {
      buffers.push_back(on_device(values, from));
      p.source[i] = buffers.back().as<char>() + offset * bytes_of(from);
    }
    for (std::int64_t j = 0; j < counts[i] + gap; ++j) {
      const bool has = j < counts[i] && i % 3 != 2;
      flat.push_back(
          has ? rounded(values[static_cast<std::size_t>(j + offset)], to) : 0);
      written.push_back(j < counts[i]);
    }
  }
  p.tensors = static_cast<int>(counts.size());
  OpRun run;
  p.flat = run.output("flat", static_cast<std::int64_t>(flat.size()), to);
  run.run([&] { pack(p, nullptr); });
  const Values got = run.values("flat");
  for (std::size_t i = 0; i < flat.size(); ++i) {
    // What nothing goes to stays poisoned.
    ASSERT_TRUE(written[i] ? got[i] == flat[i] : std::isnan(got[i]))
        << "element " << i << " is " << got[i] << ", not " << flat[i];
  }
}

TEST(PackGpu, puts_every_tensor_in_its_place) {
  const std::vector<std::int64_t> mixed = {64, 1,      8192, 8193,
                                           0,  100000, 7,    2048};
  const std::vector<std::int64_t> many(kMostPacked, 65);
  for (const Element from : {Element::kBF16, Element::kF32}) {
    for (const Element to : {Element::kBF16, Element::kF32}) {
      for (const std::int64_t gap : {0, 64, 3}) {
        for (const std::int64_t offset : {0, 1, 8}) {
          expect_right(mixed, gap, offset, from, to);
        }
      }
      expect_right(many, 1, 0, from, to);
      expect_right({}, 0, 0, from, to);
    }
  }
}

TEST(PackGpu, refuses_what_does_not_fit) {
  PackParams p;
  p.tensors = kMostPacked + 1;
  EXPECT_NE(pack_unsupported(p), nullptr);
  p.tensors = 1;
  p.count[0] = 5;
  EXPECT_NE(pack_unsupported(p), nullptr);  // nowhere to go
  p.count[0] = -1;
  EXPECT_NE(pack_unsupported(p), nullptr);
}

}  // namespace
}  // namespace osdn::test
