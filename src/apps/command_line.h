#pragma once
// Parsing a command line the same way in every program.

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <functional>
#include <iostream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/host.h"
#include "osdn/core/nearest.h"

namespace osdn::apps {

/// Long options of a program and of the subcommands that were chosen.
inline std::vector<std::string> long_options(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      names.push_back("--" + name);
    }
  }
  for (const CLI::App* chosen : app.get_subcommands()) {
    const std::vector<std::string> more = long_options(*chosen);
    names.insert(names.end(), more.begin(), more.end());
  }
  return names;
}

/// For options that take the path of a file or folder: what CLI11 is to say.
inline std::string check_path(const std::string& text) {
  if (text.find_first_not_of(" \t\r\n") != std::string::npos) {
    return "";
  }
  return concat("\"", text,
                "\" is blank; expected the path of a file or folder");
}

/// For options that take an integer from `least` to `most`. (CLI11's own checks
/// name the limits of a double, and its numbers wrap around at their ends.)
inline std::function<std::string(const std::string&)> integer_from(
    std::uint64_t least,
    std::uint64_t most = std::numeric_limits<std::int64_t>::max()) {
  return [least, most](const std::string& text) -> std::string {
    std::uint64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, fault] = std::from_chars(text.data(), end, value);
    return fault == std::errc() && rest == end && value >= least &&
                   value <= most
               ? ""
               : concat("\"", text, "\" is not an integer from ", least, " on",
                        value > most || fault == std::errc::result_out_of_range
                            ? concat(" that is below 2^",
                                     most == ~std::uint64_t{0} ? 64 : 63)
                            : "");
  };
}

/// For options whose range is checked later: CLI11 would take a number that no
/// 64 bits hold for another one.
inline std::string whole_number(const std::string& text) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, fault] = std::from_chars(text.data(), end, value);
  return fault == std::errc() && rest == end
             ? ""
             : concat("\"", text, "\" is not an integer below 2^63");
}

/// Long options of a program, or of one subcommand, that are on the command
/// line.
inline std::vector<std::string> given_options(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() > 0 && !option->get_lnames().empty()) {
      names.push_back("--" + option->get_lnames().front());
    }
  }
  return names;
}

/// Of several ranks that a launcher started the first alone speaks of the
/// command line, which is the same for all.
inline bool speaks_for_all() {
  return launched_rank().value_or("0") == "0";
}

/// Parses. Where the program has nothing left to do (--help, --version, a
/// mistake) it has said so and the exit code is returned: kUsage for a mistake,
/// with the nearest known name behind each unknown option.
inline std::optional<ExitCode> parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    std::ostringstream unheard;
    const bool speaks = speaks_for_all();
    if (app.exit(error, speaks ? std::cout : unheard,
                 speaks ? std::cerr : unheard) == 0) {
      return ExitCode::kOk;
    }
    if (!speaks) {
      return ExitCode::kUsage;
    }
    const std::vector<std::string> known = long_options(app);
    for (int i = 1; i < argc; ++i) {
      const std::string_view argument = argv[i];
      const std::string name(argument.substr(0, argument.find('=')));
      if (!name.starts_with("--") || name == "--" ||
          std::find(known.begin(), known.end(), name) != known.end()) {
        continue;
      }
      if (const auto meant = nearest(name, known)) {
        std::cerr << name << " is not known; did you mean " << *meant << "?\n";
      }
    }
    return ExitCode::kUsage;
  }
}

}  // namespace osdn::apps
