#include "osdn/report/progress.h"

#include <utility>

#include "osdn/core/concat.h"
#include "osdn/report/format.h"

namespace osdn::report {

std::string format_progress(const ProgressOptions& options, std::int64_t count,
                            std::optional<double> rate,
                            std::string_view detail) {
  std::string line = options.label;
  const auto done = static_cast<double>(count);
  const auto total = static_cast<double>(options.total);
  if (options.total > 0) {
    line += concat(" ", format_fixed(100.0 * done / total, 1), "% ",
                   format_si(done), "/", format_si(total), options.unit);
  } else {
    line += concat(" ", format_si(done), options.unit);
  }
  if (!detail.empty()) {
    line += concat(", ", detail);
  }
  if (rate.has_value()) {
    line += concat(", ", format_si(*rate), options.unit, "/s");
    if (options.total > count && *rate > 0) {
      line += concat(", ", format_duration((total - done) / *rate), " left");
    }
  }
  return line;
}

Progress::Progress(ProgressOptions options)
    : options_(std::move(options)),
      start_(std::chrono::steady_clock::now()),
      line_({.stream = options_.stream,
             .terminal_interval_s = options_.terminal_interval_s,
             .plain_interval_s = options_.plain_interval_s}) {
  meter_.sample(0.0, 0);
}

double Progress::elapsed_s() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                       start_)
      .count();
}

void Progress::add(std::int64_t n) {
  const std::lock_guard lock(mutex_);
  count_ += n;
  show_locked();
}

void Progress::update(std::int64_t count, std::string_view detail) {
  const std::lock_guard lock(mutex_);
  count_ = count;
  detail_ = detail;
  show_locked();
}

void Progress::show_locked() {
  const double elapsed = elapsed_s();
  meter_.sample(elapsed, count_);
  if (elapsed < options_.quiet_s) {
    return;
  }
  line_.show(format_progress(options_, count_, meter_.rate(), detail_));
}

void Progress::finish() {
  const std::lock_guard lock(mutex_);
  const double seconds = elapsed_s();
  std::string line =
      concat(options_.label, " ", format_si(static_cast<double>(count_)),
             options_.unit, " in ", format_duration(seconds));
  if (seconds > 0) {
    line += concat(", ", format_si(static_cast<double>(count_) / seconds),
                   options_.unit, "/s");
  }
  if (!detail_.empty()) {
    line += concat(", ", detail_);
  }
  line_.finish(line);
}

std::int64_t Progress::count() const {
  const std::lock_guard lock(mutex_);
  return count_;
}

}  // namespace osdn::report
