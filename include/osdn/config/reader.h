#pragma once
// From a JSON file and overrides to a checked configuration.
//
// Everything wrong is found before anything else happens and is reported in one
// Error (ExitCode::kUsage): syntax, unknown and duplicate keys, wrong types,
// values out of range, keys without effect, combinations that cannot be. Every
// line names the place (file:line:column or the override), the key as a JSON
// pointer, what was found and what is allowed.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "osdn/config/config.h"

namespace osdn::config {

struct LoadRequest {
  std::string config;                  ///< name or path, see find_config
  std::vector<std::string> overrides;  ///< "a.b=c", later ones win
  /// --run-dir: stands above what the file and overrides say; empty: they do.
  std::string run_dir{};
};

/// Finds, reads, overrides, completes and checks.
Config load(const LoadRequest& request);

/// The same from text; `name` stands for the file in messages.
Config parse(std::string_view text, const std::string& name,
             const std::vector<std::string>& overrides = {});

/// The file that a --config name stands for, with or without ".json": a path,
/// else in the folders of $OSDN_CONFIG_PATH (separated by colons), else in
/// ../share/osdn/configs beside the program, else in the source tree's configs.
/// Not found: an Error that lists the places tried and the names that exist.
std::filesystem::path find_config(const std::string& name);

/// The resolved configuration as JSON, keys sorted, two spaces of indentation:
/// every key that has an effect and its value. parse() of it gives the same.
std::string to_json(const Config& config);

}  // namespace osdn::config
