#pragma once
// Reads a safetensors file into float64 vectors, apart from the project's own
// reader so that a fault there cannot hide in a comparison.

#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace osdn::test {

struct GoldenTensor {
  std::vector<std::int64_t> shape;
  std::vector<double> values;
};

struct GoldenFile {
  std::map<std::string, GoldenTensor> tensors;
  std::map<std::string, std::string> metadata;

  bool has(const std::string& name) const { return tensors.count(name) > 0; }
  const GoldenTensor& at(const std::string& name) const {
    const auto found = tensors.find(name);
    if (found == tensors.end()) {
      throw std::runtime_error("golden file has no tensor " + name);
    }
    return found->second;
  }
  /// Values of a tensor, empty if it is absent.
  std::vector<double> values_or_empty(const std::string& name) const {
    return has(name) ? at(name).values : std::vector<double>{};
  }
};

namespace detail {
template <typename T>
void widen(const std::vector<char>& bytes, std::vector<double>& out) {
  out.resize(bytes.size() / sizeof(T));
  for (std::size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    out[i] = static_cast<double>(value);
  }
}
}  // namespace detail

inline GoldenFile read_golden(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::uint64_t header_bytes = 0;
  if (!file.read(reinterpret_cast<char*>(&header_bytes), 8)) {
    throw std::runtime_error("cannot read " + path);
  }
  std::string header(header_bytes, '\0');
  file.read(header.data(), static_cast<std::streamsize>(header_bytes));
  GoldenFile out;
  const nlohmann::json entries = nlohmann::json::parse(header);
  for (const auto& [name, entry] : entries.items()) {
    if (name == "__metadata__") {
      for (const auto& [key, value] : entry.items()) {
        out.metadata[key] = value.get<std::string>();
      }
      continue;
    }
    GoldenTensor& tensor = out.tensors[name];
    tensor.shape = entry.at("shape").get<std::vector<std::int64_t>>();
    const auto range =
        entry.at("data_offsets").get<std::vector<std::uint64_t>>();
    std::vector<char> bytes(range.at(1) - range.at(0));
    file.seekg(static_cast<std::streamoff>(8 + header_bytes + range.at(0)));
    file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    if (!file) throw std::runtime_error(path + " ends inside " + name);
    const std::string dtype = entry.at("dtype").get<std::string>();
    if (dtype == "F64") {
      detail::widen<double>(bytes, tensor.values);
    } else if (dtype == "F32") {
      detail::widen<float>(bytes, tensor.values);
    } else if (dtype == "I64") {
      detail::widen<std::int64_t>(bytes, tensor.values);
    } else {
      throw std::runtime_error(path + ": dtype " + dtype + " of " + name);
    }
  }
  return out;
}

}  // namespace osdn::test
