#include "osdn/report/step_line.h"

#include <gtest/gtest.h>

#include <limits>

namespace osdn::report {
namespace {

TEST(StepLine, shows_every_figure) {
  EXPECT_EQ(format_step_line({.step = 120,
                              .total = 20000,
                              .loss = 5.43214,
                              .grad_norm = 0.8734,
                              .lr = 9.81e-4,
                              .tokens_per_s = 12345,
                              .seconds_left = 3723}),
            "step   120/20000  loss 5.4321  norm 0.873  lr 9.81e-04  "
            "12.3k tok/s  1:02:03 left");
}

TEST(StepLine, says_when_a_step_was_skipped) {
  EXPECT_EQ(
      format_step_line({.step = 3,
                        .total = 9,
                        .loss = std::numeric_limits<double>::quiet_NaN(),
                        .grad_norm = std::numeric_limits<double>::infinity(),
                        .lr = 0.001,
                        .tokens_per_s = 10,
                        .skipped = true}),
      "step 3/9  loss nan  norm inf  lr 1.00e-03  10 tok/s  SKIPPED");
}

TEST(ValidationLine, loss_and_perplexity) {
  EXPECT_EQ(format_validation_line(100, 1.0, 65536),
            "validation at step 100: loss 1.0000, perplexity 2.72, 65.5k "
            "tokens");
}

}  // namespace
}  // namespace osdn::report
