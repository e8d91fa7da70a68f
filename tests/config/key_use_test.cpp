// A key that is read but used nowhere would be accepted and change nothing.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "osdn/config/reference.h"

namespace osdn::config {
namespace {

namespace fs = std::filesystem;

// Sources that move keys about without using them.
bool only_carries_keys(const fs::path& file) {
  const std::set<std::string> carriers = {"key_table.cpp", "model_keys.cpp",
                                          "validate.cpp",  "reader.cpp",
                                          "to_json.cpp",   "reference.cpp"};
  return file.parent_path().filename() == "config" &&
         carriers.contains(file.filename().string());
}

// Every name that some source reads as a member.
std::set<std::string> members_read() {
  std::set<std::string> names;
  const std::regex member(R"((\.|->)([a-z][a-z0-9_]*))");
  // The structs' own functions name their members without an object.
  const std::regex word(R"((\b)([a-z][a-z0-9_]*))");
  for (const char* folder : {"src", "include"}) {
    for (const auto& entry :
         fs::recursive_directory_iterator(fs::path(OSDN_SOURCE_DIR) / folder)) {
      if (!entry.is_regular_file() || only_carries_keys(entry.path())) {
        continue;
      }
      const bool of_structs = entry.path().filename() == "config.cpp";
      std::ifstream in(entry.path());
      std::string line;
      while (std::getline(in, line)) {
        const std::string code = line.substr(0, line.find("//"));
        for (std::sregex_iterator
                 it(code.begin(), code.end(), of_structs ? word : member),
             end;
             it != end; ++it) {
          names.insert((*it)[2]);
        }
      }
    }
  }
  return names;
}

TEST(KeyUse, G4_every_key_is_read_by_some_source) {
  const std::set<std::string> names = members_read();
  EXPECT_FALSE(names.contains("a_key_that_nobody_reads"));
  for (const KeyInfo& key : known_keys()) {
    EXPECT_TRUE(names.contains(key.path.substr(key.path.rfind('.') + 1)))
        << key.path << " is accepted, but no source reads it";
  }
}

}  // namespace
}  // namespace osdn::config
