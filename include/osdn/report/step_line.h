#pragma once
// The training line, for example
//
//   step   120/2000  loss 5.4321  norm 0.873  lr 9.81e-04  12.3k tok/s  3:21
//   left

#include <cstdint>
#include <string>

namespace osdn::report {

struct StepLine {
  std::int64_t step = 0;   ///< updates done
  std::int64_t total = 0;  ///< where training stops
  double loss = 0;         ///< mean over the step's valid labels, nats
  double grad_norm = 0;    ///< before the clip
  double lr = 0;
  double tokens_per_s = 0;
  double seconds_left = -1;  ///< negative: not known
  bool skipped = false;      ///< the update was left out
};

/// Without a line end.
std::string format_step_line(const StepLine& line);

/// "validation at step 100: loss 5.1234, perplexity 167.9, 65.5k tokens".
std::string format_validation_line(std::int64_t step, double loss,
                                   std::int64_t tokens);

}  // namespace osdn::report
