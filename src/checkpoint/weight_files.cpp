#include "osdn/checkpoint/weight_files.h"

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/nearest.h"
#include "osdn/core/path.h"

namespace osdn::checkpoint {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string single_name(const std::string& stem) {
  return stem + ".safetensors";
}
std::string index_name(const std::string& stem) {
  return stem + ".safetensors.index.json";
}

[[noreturn]] void fail(const fs::path& path, const std::string& what) {
  throw Error(concat(path.string(), ": ", what), ExitCode::kBadInput);
}

// "weight_map" as file -> names of its tensors.
std::map<std::string, std::set<std::string>> read_weight_map(
    const fs::path& path) {
  std::map<std::string, std::set<std::string>> names_of_file;
  try {
    const json index = json::parse(read_file(path));
    for (const auto& [name, value] : index.at("weight_map").items()) {
      const auto file = value.get<std::string>();
      // A name with a folder in it could reach any file of the machine.
      if (file.empty() || fs::path(file).filename() != file || file == "." ||
          file == "..") {
        fail(path, concat("weight_map places tensor \"", name, "\" in \"", file,
                          "\", expected the name of a file beside the index"));
      }
      names_of_file[file].insert(name);
    }
  } catch (const json::exception& error) {
    fail(path, concat("is not an index with a weight_map: ", error.what()));
  }
  if (names_of_file.empty()) {
    fail(path, "its weight_map is empty");
  }
  return names_of_file;
}

fs::path resolve(const fs::path& path, const std::string& stem) {
  if (!is_folder(path)) {
    return path;
  }
  for (const std::string& name : {single_name(stem), index_name(stem)}) {
    if (is_there(path / name)) {
      return path / name;
    }
  }
  fail(path,
       concat("holds neither ", single_name(stem), " nor ", index_name(stem)));
}

}  // namespace

WeightFiles::WeightFiles(const fs::path& path, const std::string& stem)
    : path_(resolve(path, stem)) {
  if (path_.extension() == ".json") {
    open_index();
  } else {
    files_.emplace_back(path_);
  }
  for (const SafetensorsFile& file : files_) {
    for (const TensorView& tensor : file.tensors()) {
      index_.emplace(tensor.name, tensors_.size());
      tensors_.push_back(tensor);
    }
  }
}

void WeightFiles::open_index() {
  for (const auto& [file_name, names] : read_weight_map(path_)) {
    SafetensorsFile file(path_.parent_path() / file_name);
    for (const std::string& name : names) {
      if (!file.contains(name)) {
        fail(path_, concat("places tensor \"", name, "\" in ", file_name,
                           ", which does not have it"));
      }
    }
    for (const TensorView& tensor : file.tensors()) {
      if (names.count(tensor.name) == 0) {
        fail(path_, concat(file_name, " has a tensor \"", tensor.name,
                           "\" that the index does not place there"));
      }
    }
    files_.push_back(std::move(file));
  }
}

bool WeightFiles::contains(std::string_view name) const {
  return index_.count(std::string(name)) != 0;
}

const TensorView& WeightFiles::tensor(std::string_view name) const {
  const auto found = index_.find(std::string(name));
  if (found != index_.end()) {
    return tensors_[found->second];
  }
  std::vector<std::string> known;
  for (const TensorView& tensor : tensors_) {
    known.push_back(tensor.name);
  }
  const std::optional<std::string> guess = nearest(name, known);
  fail(path_,
       concat("has no tensor \"", name, "\" among its ", tensors_.size(),
              guess.has_value() ? concat("; the nearest is \"", *guess, "\"")
                                : std::string()));
}

bool has_weights(const fs::path& folder, const std::string& stem) {
  return is_there(folder / single_name(stem)) ||
         is_there(folder / index_name(stem));
}

std::string weight_file_name(const std::string& stem, std::int64_t number,
                             std::int64_t count) {
  const auto digits = [](std::int64_t value) {
    const std::string text = std::to_string(value);
    return std::string(text.size() < 5 ? 5 - text.size() : 0, '0') + text;
  };
  return concat(stem, "-", digits(number), "-of-", digits(count),
                ".safetensors");
}

std::string weight_index(const std::map<std::string, std::string>& files,
                         std::int64_t total_bytes) {
  const json index = {{"metadata", {{"total_size", total_bytes}}},
                      {"weight_map", files}};
  return index.dump(2) + "\n";
}

}  // namespace osdn::checkpoint
