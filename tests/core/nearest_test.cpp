#include "osdn/core/nearest.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace osdn {
namespace {

TEST(Nearest, distances_by_hand) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("abc", ""), 3U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("steps", "setps"), 1U);
  EXPECT_EQ(edit_distance("learing", "learning"), 1U);
  EXPECT_EQ(edit_distance("Num_Heads", "num_heads"), 0U);
  EXPECT_EQ(edit_distance("ca", "abc"), 3U);
}

TEST(Nearest, picks_the_closest_and_the_first_of_equals) {
  const std::vector<std::string> known = {"beta1", "beta2", "eps",
                                          "weight_decay"};
  EXPECT_EQ(nearest("weigth_decay", known), "weight_decay");
  EXPECT_EQ(nearest("beta", known), "beta1");
  EXPECT_EQ(nearest("beta3", known), "beta1");
}

TEST(Nearest, of_equals_the_one_that_goes_on) {
  const std::vector<std::string> known = {"--help", "--version", "--verify"};
  EXPECT_EQ(edit_distance("--vers", known[0]),
            edit_distance("--vers", known[1]));
  EXPECT_EQ(nearest("--vers", known), "--version");
}

TEST(Nearest, nothing_when_nothing_is_near) {
  const std::vector<std::string> known = {"beta1", "eps"};
  EXPECT_EQ(nearest("context_length", known), std::nullopt);
  EXPECT_EQ(nearest("x", {}), std::nullopt);
}

}  // namespace
}  // namespace osdn
