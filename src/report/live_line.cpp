#include "osdn/report/live_line.h"

#include <chrono>
#include <cstdio>
#include <limits>
#include <utility>

#include "osdn/core/concat.h"
#include "osdn/core/log.h"

namespace osdn::report {

namespace {

double now_s() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// One call, so that a line is whole in a pipe; flushed, so that a kill loses
// nothing. A reader that has gone away is run_main's to report.
void put(Stream stream, const std::string& bytes) {
  std::FILE* const file = stream == Stream::kStdout ? stdout : stderr;
  std::fwrite(bytes.data(), 1, bytes.size(), file);
  std::fflush(file);
}

constexpr auto kUnlimited = std::numeric_limits<std::size_t>::max();

}  // namespace

std::string fit_line(std::string_view text, std::size_t columns) {
  std::string out;
  std::size_t used = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool continuation = (byte & 0xC0) == 0x80;
    if (!continuation && used++ == columns) {
      break;
    }
    out += byte < 0x20 || byte == 0x7F ? ' ' : c;
  }
  return out;
}

LiveLine::LiveLine(LiveLineOptions options)
    : options_(options),
      terminal_(is_terminal(options.stream)),
      last_drawn_s_(-std::numeric_limits<double>::infinity()) {
  if (terminal_) {
    log::set_before_write([this] { wipe(); });
  }
}

LiveLine::~LiveLine() {
  if (terminal_) {
    log::set_before_write({});
  }
  finish();
}

void LiveLine::show(std::string_view text) {
  const std::lock_guard lock(mutex_);
  const double interval =
      terminal_ ? options_.terminal_interval_s : options_.plain_interval_s;
  if (now_s() - last_drawn_s_ < interval) {
    kept_back_ = text;
    return;
  }
  draw(text);
}

void LiveLine::draw(std::string_view text) {
  kept_back_.clear();
  last_drawn_s_ = now_s();
  if (terminal_) {
    // A line as wide as the terminal would wrap, and the next carriage return
    // would not reach its beginning. The width is asked for each time: windows
    // are resized.
    const int width = terminal_width(options_.stream);
    const std::size_t columns =
        width > 1 ? static_cast<std::size_t>(width) - 1 : 1;
    put(options_.stream, concat("\r", fit_line(text, columns), "\x1b[K"));
    standing_ = true;
  } else {
    put(options_.stream, concat(fit_line(text, kUnlimited), "\n"));
  }
}

void LiveLine::print(std::string_view text) {
  const std::lock_guard lock(mutex_);
  wipe_locked();
  put(options_.stream, concat(fit_line(text, kUnlimited), "\n"));
}

void LiveLine::finish() {
  const std::lock_guard lock(mutex_);
  if (!kept_back_.empty()) {
    draw(std::exchange(kept_back_, {}));
  }
  if (standing_) {
    put(options_.stream, "\n");
    standing_ = false;
  }
}

void LiveLine::finish(std::string_view last) {
  const std::lock_guard lock(mutex_);
  kept_back_.clear();
  wipe_locked();
  put(options_.stream, concat(fit_line(last, kUnlimited), "\n"));
}

void LiveLine::wipe() {
  const std::lock_guard lock(mutex_);
  wipe_locked();
}

void LiveLine::wipe_locked() {
  if (standing_) {
    put(options_.stream, "\r\x1b[K");
    standing_ = false;
    // The wiped status comes back at once, not an interval later.
    last_drawn_s_ = -std::numeric_limits<double>::infinity();
  }
}

}  // namespace osdn::report
