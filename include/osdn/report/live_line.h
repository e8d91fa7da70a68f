#pragma once
// One line of status: redrawn in place on a terminal, printed line by line
// elsewhere (a file, a pipe, TERM=dumb), where no control code is ever written
// and each line is flushed.

#include <mutex>
#include <string>
#include <string_view>

#include "osdn/core/terminal.h"

namespace osdn::report {

struct LiveLineOptions {
  Stream stream = Stream::kStdout;
  double terminal_interval_s = 0.1;  ///< redraw no more often than this
  double plain_interval_s = 0.0;     ///< print no more often than this
};

/// Safe from several threads. While it lives on a terminal it wipes itself
/// before a log line (log::set_before_write), so only one should live there.
class LiveLine {
 public:
  explicit LiveLine(LiveLineOptions options = {});
  /// Leaves the last status standing.
  ~LiveLine();
  LiveLine(const LiveLine&) = delete;
  LiveLine& operator=(const LiveLine&) = delete;

  /// The new status. One that comes too soon is kept back: the next in time
  /// replaces it, finish() shows it.
  void show(std::string_view text);

  /// A line that stays; the status is drawn anew below it with the next show().
  void print(std::string_view text);

  /// Shows a status that was kept back, and moves to a fresh line.
  void finish();
  /// The same with `last` in the status's place.
  void finish(std::string_view last);

  bool on_terminal() const { return terminal_; }

 private:
  void draw(std::string_view text);
  void wipe();
  void wipe_locked();

  const LiveLineOptions options_;
  const bool terminal_;
  std::mutex mutex_;
  std::string kept_back_;
  double last_drawn_s_;
  bool standing_ = false;  // a status stands on the terminal's current line
};

/// `text` cut to `columns` code points, control characters made spaces.
std::string fit_line(std::string_view text, std::size_t columns);

}  // namespace osdn::report
