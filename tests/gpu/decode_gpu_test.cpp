// The decoding step's launcher on the GPU against float64, with poison around
// its outputs, at small and real sizes; and what it refuses.

#include <gtest/gtest.h>

#include "gpu/decode_cases.h"

namespace osdn::test {
namespace {

std::vector<DecodeCase> real_sizes() {
  std::vector<DecodeCase> cases = {decode_case("340m, 1", 1, 8, 8, 128, 128),
                                   decode_case("340m, 64", 64, 8, 8, 128, 128),
                                   decode_case("gdn, 3", 3, 6, 6, 128, 256)};
  for (DecodeCase& c : cases) {
    c.shape.element = kernels::Element::kBF16;
    c.preconditioner = true;
    c.retention = kernels::DecodeRetention::kSigmoid;
    c.steps = 2;
  }
  cases[2].decay = kernels::DecodeDecay::kSoftplus;
  return cases;
}

TEST(GpuDecode, steps_agree_with_float64) {
  std::vector<DecodeCase> cases = decode_cases();
  for (const DecodeCase& c : real_sizes()) cases.push_back(c);
  for (const DecodeCase& c : cases) {
    for (const std::string& failure : check_decode(c, 3)) {
      ADD_FAILURE() << failure;
    }
  }
}

}  // namespace
}  // namespace osdn::test
