#pragma once
// The weights of a model, in one safetensors file or in several with an index
// (model.safetensors.index.json, as the transformers library writes it).

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "osdn/checkpoint/safetensors.h"

namespace osdn::checkpoint {

class WeightFiles {
 public:
  /// A .safetensors file, an index file, or a folder with model.safetensors or
  /// model.safetensors.index.json. The index must name every tensor of its
  /// files and no other. Throws Error naming the file that is not sound.
  explicit WeightFiles(const std::filesystem::path& path)
      : WeightFiles(path, "model") {}
  /// The same for files of another name: `stem`.safetensors or
  /// `stem`.safetensors.index.json.
  WeightFiles(const std::filesystem::path& path, const std::string& stem);

  /// Of all files, in the order of the files' names and of the tensors therein.
  const std::vector<TensorView>& tensors() const { return tensors_; }
  bool contains(std::string_view name) const;
  /// Throws Error naming the nearest name that there is.
  const TensorView& tensor(std::string_view name) const;
  /// Of the first file.
  const Metadata& metadata() const { return files_.front().metadata(); }
  /// What was opened: the file or the index.
  const std::filesystem::path& path() const { return path_; }

 private:
  void open_index();

  std::filesystem::path path_;
  std::vector<SafetensorsFile> files_;
  std::vector<TensorView> tensors_;
  std::unordered_map<std::string, std::size_t> index_;
};

/// Is there a file or an index of that stem in the folder?
bool has_weights(const std::filesystem::path& folder,
                 const std::string& stem = "model");

/// "model-00002-of-00008.safetensors", counted from 1.
std::string weight_file_name(const std::string& stem, std::int64_t number,
                             std::int64_t count);

/// The text of an index: tensor name to file name.
std::string weight_index(const std::map<std::string, std::string>& files,
                         std::int64_t total_bytes);

}  // namespace osdn::checkpoint
