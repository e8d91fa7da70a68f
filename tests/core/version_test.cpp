#include "osdn/core/version.h"

#include <gtest/gtest.h>

#include <regex>

namespace osdn {
namespace {

TEST(Version, looks_like_one) {
  EXPECT_TRUE(std::regex_match(version(), std::regex(R"(\d+\.\d+\.\d+)")))
      << version();
  EXPECT_TRUE(
      std::regex_match(commit(), std::regex("unknown|[0-9a-f]{40}(-dirty)?")))
      << commit();
  EXPECT_EQ(version_line("osdn-train"),
            "osdn-train " + version() + " (" + commit() + ")");
}

}  // namespace
}  // namespace osdn
