#pragma once
// Parsing a command line the same way in every program.

#include <CLI/CLI.hpp>
#include <algorithm>
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

/// A command line after which the program has nothing left to do: --help,
/// --version, or a mistake (ExitCode::kUsage).
struct CommandLineEnd {
  ExitCode code = ExitCode::kOk;
  std::string out{};  ///< for standard output
  std::string err{};  ///< for standard error
};

/// "trian is not known; did you mean train?", or what is expected in its place.
inline std::string not_known(const std::string& name,
                             const std::vector<std::string>& known,
                             bool list_all) {
  if (const auto meant = nearest(name, known)) {
    return concat(name, " is not known; did you mean ", *meant, "?\n");
  }
  std::string all;
  for (const std::string& one : known) {
    all += concat(all.empty() ? "" : ", ", one);
  }
  return list_all ? concat(name, " is not known; expected one of ", all, "\n")
                  : "";
}

/// What was written in place of a subcommand, where the program needs one and
/// got none.
inline std::optional<std::string> wrong_subcommand(const CLI::App& app,
                                                   int argc, char** argv) {
  if (app.get_require_subcommand_min() == 0 || !app.get_subcommands().empty()) {
    return std::nullopt;
  }
  for (int i = 1; i < argc; ++i) {
    if (argv[i][0] != '-') return argv[i];
  }
  return std::nullopt;
}

inline std::string hints(const CLI::App& app, int argc, char** argv) {
  const std::vector<std::string> known = long_options(app);
  std::string text;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const std::string name(argument.substr(0, argument.find('=')));
    if (!name.starts_with("--") || name == "--" ||
        std::find(known.begin(), known.end(), name) != known.end()) {
      continue;
    }
    text += not_known(name, known, false);
  }
  return text;
}

/// Parses and says nothing; nothing is returned while the program is to go on.
/// A mistake comes with the nearest known name of each unknown option, or of an
/// unknown subcommand.
inline std::optional<CommandLineEnd> try_parse(CLI::App& app, int argc,
                                               char** argv) {
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, err;
    if (app.exit(error, out, err) == 0) {
      return CommandLineEnd{ExitCode::kOk, out.str(), ""};
    }
    if (const auto wrong = wrong_subcommand(app, argc, argv)) {
      std::vector<std::string> known;
      for (const CLI::App* one : app.get_subcommands(nullptr)) {
        known.push_back(one->get_name());
      }
      return CommandLineEnd{ExitCode::kUsage, "",
                            not_known(*wrong, known, true) +
                                "Run with --help for more information.\n"};
    }
    return CommandLineEnd{ExitCode::kUsage, "",
                          err.str() + hints(app, argc, argv)};
  }
}

inline ExitCode say(const CommandLineEnd& end) {
  std::cout << end.out;
  std::cerr << end.err;
  return end.code;
}

/// For programs that are one process: parses and says what there is to say. The
/// exit code, where the program has nothing left to do. Copies that a launcher
/// started do not know of each other: each says which it is.
inline std::optional<ExitCode> parse(CLI::App& app, int argc, char** argv) {
  auto end = try_parse(app, argc, argv);
  if (!end) return std::nullopt;
  const std::string rank = launched_rank().value_or("0");
  if (rank != "0" && !end->err.empty()) {
    end->err = concat("rank ", rank, ": ", end->err);
  }
  return say(*end);
}

}  // namespace osdn::apps
