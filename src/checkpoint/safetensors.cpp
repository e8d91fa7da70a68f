#include "osdn/checkpoint/safetensors.h"

#include <cstring>
#include <iterator>
#include <optional>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/nearest.h"
#include "safetensors_header.h"

namespace osdn::checkpoint {

namespace {

constexpr std::uint64_t kLengthBytes = 8;

std::uint64_t read_length(const std::byte* bytes) {
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    length |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  }
  return length;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : mapping_(path) {
  const std::string where = path.string();
  const auto fail = [&](const std::string& what) {
    throw Error(concat(where, ": ", what), ExitCode::kBadInput);
  };
  const std::uint64_t size = mapping_.size();
  if (size < kLengthBytes) {
    fail(concat("has ", size,
                " bytes; a safetensors file begins with 8 bytes "
                "of header length"));
  }
  const std::uint64_t length = read_length(mapping_.data());
  if (length > kMaxHeaderBytes || length > size - kLengthBytes) {
    fail(concat("its header claims ", length, " bytes, but the file has ", size,
                " in all; the file was cut short, or is no safetensors file"));
  }
  const std::string_view text(
      reinterpret_cast<const char*>(mapping_.data()) + kLengthBytes,
      static_cast<std::size_t>(length));
  if (text.empty() || text.front() != '{') {
    fail("its header does not begin with '{' at byte 8");
  }
  Header header = parse_header(text, size - kLengthBytes - length, where);
  metadata_ = std::move(header.metadata);

  const std::byte* const data = mapping_.data() + kLengthBytes + length;
  for (HeaderTensor& tensor : header.tensors) {
    const std::byte* bytes = data + tensor.begin;
    const auto count = static_cast<std::size_t>(tensor.end - tensor.begin);
    if (reinterpret_cast<std::uintptr_t>(bytes) % size_of(tensor.view.dtype) !=
        0) {
      realigned_.push_back(std::make_unique<std::byte[]>(count));
      std::memcpy(realigned_.back().get(), bytes, count);
      bytes = realigned_.back().get();
    }
    // TensorView serves readers and writers alike; the mapping is read-only.
    tensor.view.data = const_cast<std::byte*>(bytes);
    index_.emplace(tensor.view.name, tensors_.size());
    tensors_.push_back(std::move(tensor.view));
  }
}

bool SafetensorsFile::contains(std::string_view name) const {
  return index_.count(std::string(name)) != 0;
}

const TensorView& SafetensorsFile::tensor(std::string_view name) const {
  const auto found = index_.find(std::string(name));
  if (found != index_.end()) {
    return tensors_[found->second];
  }
  std::vector<std::string> known;
  for (const TensorView& tensor : tensors_) {
    known.push_back(tensor.name);
  }
  const std::optional<std::string> guess = nearest(name, known);
  throw Error(
      concat(path().string(), ": has no tensor \"", name, "\" among its ",
             tensors_.size(),
             guess.has_value() ? concat("; the nearest is \"", *guess, "\"")
                               : std::string()),
      ExitCode::kBadInput);
}

}  // namespace osdn::checkpoint
