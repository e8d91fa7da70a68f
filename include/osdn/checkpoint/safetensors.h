#pragma once
// safetensors files (https://github.com/huggingface/safetensors): 8 bytes of
// header length, little-endian; a JSON header; the tensors' bytes.
//
// The reader is strict, because a file that is not sound must not be loaded
// half: the header is read as the format defines it and nothing else (no
// unknown or repeated key), and the tensors cover the data without hole or
// overlap. All of that is checked on opening, before any memory is set aside
// that the file does not back. Errors are ExitCode::kBadInput and name file and
// tensor.

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "osdn/checkpoint/write_progress.h"
#include "osdn/core/file.h"
#include "osdn/core/tensor_view.h"

namespace osdn::checkpoint {

using Metadata = std::map<std::string, std::string>;

/// An open file; its tensors live in a read-only mapping of it, so `data` of a
/// view must not be written to and ends with this object.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);

  /// In the order of their bytes in the file.
  const std::vector<TensorView>& tensors() const { return tensors_; }
  bool contains(std::string_view name) const;
  /// Throws Error naming the file and the nearest name that it has.
  const TensorView& tensor(std::string_view name) const;
  /// __metadata__; empty when the file has none.
  const Metadata& metadata() const { return metadata_; }
  const std::filesystem::path& path() const { return mapping_.path(); }

 private:
  MappedFile mapping_;
  std::vector<TensorView> tensors_;
  std::unordered_map<std::string, std::size_t> index_;
  Metadata metadata_;
  // Copies of tensors whose bytes do not start at a multiple of their
  // element's size; the format allows it, C++ does not.
  std::vector<std::unique_ptr<std::byte[]>> realigned_;
};

/// What a writer knows of the file that it wrote.
struct WrittenFile {
  std::uint64_t size = 0;
  std::uint64_t xxh3 = 0;  ///< XXH3-64 of all bytes
};

/// Writes `tensors` to `path` (created or emptied), largest element type first
/// so that all are aligned, otherwise in the given order; syncs every 64 MB,
/// which shows a slow disk's progress, and at the end; opens the file again and
/// compares names, dtypes, shapes and metadata. "format": "pt" is added to the
/// metadata unless it names a format; other readers want it. The file is not
/// renamed into place: callers that need that write into a folder or file of
/// their own and rename it. Throws Error; the file may then be left in part.
WrittenFile write_safetensors(const std::filesystem::path& path,
                              std::span<const TensorView> tensors,
                              const Metadata& metadata = {},
                              WriteProgress* progress = nullptr);

}  // namespace osdn::checkpoint
