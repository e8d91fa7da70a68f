#include "osdn/core/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include "osdn/core/env.h"
#include "osdn/core/error.h"
#include "osdn/core/terminal.h"

namespace osdn::log {

namespace {

constexpr std::array<std::pair<std::string_view, Level>, 4> kLevels = {{
    {"debug", Level::kDebug},
    {"info", Level::kInfo},
    {"warn", Level::kWarn},
    {"error", Level::kError},
}};

std::atomic<Level> threshold{Level::kInfo};

std::mutex& guard() {
  static std::mutex mutex;
  return mutex;
}
std::function<void()>& before_write() {
  static std::function<void()> hook;
  return hook;
}
std::function<void(Level, std::string_view)>& receiver() {
  static std::function<void(Level, std::string_view)> function;
  return function;
}

spdlog::logger& logger() {
  // Never destroyed: threads may log while the program ends.
  static spdlog::logger* const instance = [] {
    const bool colour =
        is_terminal(Stream::kStderr) && !env("NO_COLOR").has_value();
    auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>(
        colour ? spdlog::color_mode::always : spdlog::color_mode::never);
    auto* created = new spdlog::logger("osdn", std::move(sink));
    created->set_pattern("%H:%M:%S %^%l%$ %v");
    created->set_level(spdlog::level::trace);
    created->flush_on(spdlog::level::trace);
    return created;
  }();
  return *instance;
}

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarn:
      return spdlog::level::warn;
    case Level::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

}  // namespace

Level level_from_name(std::string_view name) {
  for (const auto& [spelling, level] : kLevels) {
    if (spelling == name) {
      return level;
    }
  }
  throw Error(concat("log level \"", name,
                     "\" is not known; use debug, info, warn or error"),
              ExitCode::kUsage);
}

void set_level(Level level) {
  threshold = level;
}

Level level() {
  return threshold;
}

void write(Level level, std::string_view message) {
  if (level < threshold.load()) {
    return;
  }
  const std::lock_guard lock(guard());
  if (receiver()) {
    receiver()(level, message);
    return;
  }
  if (before_write()) {
    before_write()();
  }
  logger().log(to_spdlog(level),
               spdlog::string_view_t(message.data(), message.size()));
}

void set_before_write(std::function<void()> hook) {
  const std::lock_guard lock(guard());
  before_write() = std::move(hook);
}

Capture::Capture(std::function<void(Level, std::string_view)> receive) {
  const std::lock_guard lock(guard());
  outer_ = std::exchange(receiver(), std::move(receive));
}

Capture::~Capture() {
  const std::lock_guard lock(guard());
  receiver() = std::move(outer_);
}

}  // namespace osdn::log
