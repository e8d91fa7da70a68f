#include "osdn/core/env.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace osdn {
namespace {

TEST(Env, set_empty_and_missing) {
  ::setenv("OSDN_TEST_VARIABLE", "value", 1);
  EXPECT_EQ(env("OSDN_TEST_VARIABLE"), "value");
  ::setenv("OSDN_TEST_VARIABLE", "", 1);
  EXPECT_EQ(env("OSDN_TEST_VARIABLE"), "");
  ::unsetenv("OSDN_TEST_VARIABLE");
  EXPECT_EQ(env("OSDN_TEST_VARIABLE"), std::nullopt);
}

}  // namespace
}  // namespace osdn
