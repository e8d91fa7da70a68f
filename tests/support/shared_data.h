#pragma once
// Reference data that the project keeps beside its checkout, in ../shared. A
// user does not have it: a test that needs it skips with a message, and fails
// instead when the environment variable CI is set.
//
//   TEST(DeltaRule, golden) {
//     OSDN_NEEDS_SHARED("golden/deltanet.safetensors");
//     load(osdn::test::shared_path("golden/deltanet.safetensors"));

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>

namespace osdn::test {

inline std::filesystem::path shared_path(std::string_view name) {
  return std::filesystem::path(OSDN_SOURCE_DIR) / ".." / "shared" / name;
}

}  // namespace osdn::test

/// Ends the calling test when `name` is not there: a failure with CI set, a
/// skip otherwise.
#define OSDN_NEEDS_SHARED(name)                                        \
  do {                                                                 \
    if (!std::filesystem::exists(::osdn::test::shared_path(name))) {   \
      if (std::getenv("CI") != nullptr) {                              \
        FAIL() << ::osdn::test::shared_path(name) << " is missing";    \
      }                                                                \
      GTEST_SKIP() << ::osdn::test::shared_path(name)                  \
                   << " is not here; this test needs the shared data"; \
    }                                                                  \
  } while (false)
