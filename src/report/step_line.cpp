#include "osdn/report/step_line.h"

#include <cmath>

#include "osdn/core/concat.h"
#include "osdn/report/format.h"

namespace osdn::report {

std::string format_step_line(const StepLine& line) {
  const std::string total = concat(line.total);
  std::string step = concat(line.step);
  if (step.size() < total.size()) {
    step.insert(0, total.size() - step.size(), ' ');
  }
  std::string out =
      concat("step ", step, "/", total, "  loss ", format_fixed(line.loss, 4),
             "  norm ", format_fixed(line.grad_norm, 3), "  lr ",
             format_scientific(line.lr, 2), "  ", format_si(line.tokens_per_s),
             " tok/s");
  if (line.seconds_left >= 0) {
    out += concat("  ", format_duration(line.seconds_left), " left");
  }
  if (line.skipped) {
    out += "  SKIPPED";
  }
  return out;
}

std::string format_validation_line(std::int64_t step, double loss,
                                   std::int64_t tokens) {
  return concat("validation at step ", step, ": loss ", format_fixed(loss, 4),
                ", perplexity ", format_fixed(std::exp(loss), 2), ", ",
                format_si(static_cast<double>(tokens)), " tokens");
}

}  // namespace osdn::report
