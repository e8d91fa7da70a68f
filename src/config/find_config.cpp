#include <algorithm>
#include <set>
#include <system_error>
#include <vector>

#include "osdn/config/reader.h"
#include "osdn/core/concat.h"
#include "osdn/core/env.h"
#include "osdn/core/error.h"
#include "osdn/core/nearest.h"

namespace osdn::config {

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> config_folders() {
  std::vector<fs::path> folders;
  const std::string listed = env("OSDN_CONFIG_PATH").value_or("");
  for (std::size_t start = 0; start < listed.size();) {
    const std::size_t end = std::min(listed.find(':', start), listed.size());
    if (end > start) {
      folders.emplace_back(listed.substr(start, end - start));
    }
    start = end + 1;
  }
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error) {
    folders.push_back(
        (program.parent_path() / OSDN_CONFIGS_FROM_PROGRAM).lexically_normal());
  }
  folders.emplace_back(OSDN_SOURCE_CONFIGS);
  return folders;
}

// The name as it is, then with the ending.
std::vector<fs::path> candidates(const fs::path& path) {
  std::vector<fs::path> out = {path};
  if (path.extension() != ".json") {
    fs::path with_ending = path;
    with_ending += ".json";
    out.push_back(with_ending);
  }
  return out;
}

std::set<std::string> names_in(const std::vector<fs::path>& folders) {
  std::set<std::string> names;
  for (const fs::path& folder : folders) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      if (entry.path().extension() == ".json") {
        names.insert(entry.path().filename().string());
      }
    }
  }
  return names;
}

}  // namespace

fs::path find_config(const std::string& name) {
  if (name.empty()) {
    throw Error(
        "The name of a configuration is empty. Give a path or a name, "
        "for example 340m_osdn_apf.json.",
        ExitCode::kUsage);
  }
  std::vector<fs::path> tried = candidates(name);
  const std::vector<fs::path> folders = config_folders();
  if (!fs::path(name).is_absolute()) {
    for (const fs::path& folder : folders) {
      for (const fs::path& path : candidates(folder / name)) {
        tried.push_back(path);
      }
    }
  }
  for (const fs::path& path : tried) {
    std::error_code error;
    if (fs::is_regular_file(path, error) || fs::is_fifo(path, error) ||
        fs::is_character_file(path, error)) {
      return path;
    }
  }
  std::error_code error;
  if (fs::is_directory(name, error)) {
    throw Error(concat("The configuration \"", name,
                       "\" is a folder; give the JSON file in it."),
                ExitCode::kUsage);
  }
  std::string message =
      concat("The configuration \"", name, "\" was not found. Tried:");
  for (const fs::path& path : tried) {
    message += "\n  " + path.string();
  }
  const std::set<std::string> names = names_in(folders);
  const std::vector<std::string> known(names.begin(), names.end());
  if (const auto near = nearest(
          candidates(fs::path(name).filename()).back().string(), known)) {
    message += concat("\nDid you mean ", *near, "?");
  }
  message += known.empty() ? "\nThere is no configuration in these folders."
                           : "\nConfigurations that exist:";
  for (const std::string& existing : known) {
    message += " " + existing;
  }
  throw Error(message, ExitCode::kUsage);
}

}  // namespace osdn::config
