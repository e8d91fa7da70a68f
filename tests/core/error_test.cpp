#include "osdn/core/error.h"

#include <gtest/gtest.h>

namespace osdn {
namespace {

TEST(Error, carries_message_and_code) {
  const Error plain("what, where, how to mend");
  EXPECT_STREQ(plain.what(), "what, where, how to mend");
  EXPECT_EQ(plain.code(), ExitCode::kFailure);
  EXPECT_EQ(Error("x", ExitCode::kBadInput).code(), ExitCode::kBadInput);
}

TEST(Error, exit_codes_are_the_documented_numbers) {
  EXPECT_EQ(static_cast<int>(ExitCode::kOk), 0);
  EXPECT_EQ(static_cast<int>(ExitCode::kFailure), 1);
  EXPECT_EQ(static_cast<int>(ExitCode::kUsage), 2);
  EXPECT_EQ(static_cast<int>(ExitCode::kBadInput), 3);
  EXPECT_EQ(static_cast<int>(ExitCode::kNonFinite), 4);
}

}  // namespace
}  // namespace osdn
