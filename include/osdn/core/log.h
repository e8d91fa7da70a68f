#pragma once
// Log lines for people, on stderr: one line a message, flushed at once; colour
// on a terminal only (and not with NO_COLOR set). Results and progress belong
// on stdout and are the report area's. Safe from several threads.

#include <functional>
#include <string>
#include <string_view>

#include "osdn/core/concat.h"

namespace osdn::log {

enum class Level { kDebug, kInfo, kWarn, kError };

/// "debug", "info", "warn" or "error"; throws Error naming these otherwise.
Level level_from_name(std::string_view name);

/// Messages below this level are dropped. Info at the start.
void set_level(Level level);
Level level();

void write(Level level, std::string_view message);

template <typename... Pieces>
void debug(const Pieces&... pieces) {
  if (level() <= Level::kDebug) {
    write(Level::kDebug, concat(pieces...));
  }
}
template <typename... Pieces>
void info(const Pieces&... pieces) {
  if (level() <= Level::kInfo) {
    write(Level::kInfo, concat(pieces...));
  }
}
template <typename... Pieces>
void warn(const Pieces&... pieces) {
  if (level() <= Level::kWarn) {
    write(Level::kWarn, concat(pieces...));
  }
}
template <typename... Pieces>
void error(const Pieces&... pieces) {
  write(Level::kError, concat(pieces...));
}

/// Called before each line is written, so that a progress line which stands on
/// the terminal can be wiped first. An empty function removes it.
void set_before_write(std::function<void()> hook);

/// While it lives, messages that pass the level go to `receive` instead of
/// stderr. Captures nest; for tests.
class Capture {
 public:
  explicit Capture(std::function<void(Level, std::string_view)> receive);
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

 private:
  std::function<void(Level, std::string_view)> outer_;
};

}  // namespace osdn::log
