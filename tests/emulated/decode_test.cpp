// The decoding step's kernel on the CPU: every index, mask and kind of gate
// against float64.

#include <gtest/gtest.h>

#include "gpu/decode_cases.h"

namespace osdn::test {
namespace {

TEST(EmulatedDecode, steps_agree_with_float64) {
  for (const DecodeCase& c : decode_cases()) {
    for (const std::string& failure : check_decode(c, 3)) {
      ADD_FAILURE() << failure;
    }
  }
}

}  // namespace
}  // namespace osdn::test
