#pragma once
// JSON files in tests.

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace osdn::test {

inline nlohmann::json read_json(const std::filesystem::path& path) {
  std::ifstream in(path);
  if (!in) {
    throw std::runtime_error("cannot read " + path.string());
  }
  return nlohmann::json::parse(in);
}

inline void write_json(const std::filesystem::path& path,
                       const nlohmann::json& value) {
  std::ofstream out(path);
  out << value.dump(2) << '\n';
  if (!out.flush()) {
    throw std::runtime_error("cannot write " + path.string());
  }
}

}  // namespace osdn::test
