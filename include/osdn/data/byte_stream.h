#pragma once
// The bytes of a file in order, unpacked on the way when it ends in .zst.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>

namespace osdn::data {

class ByteStream {
 public:
  virtual ~ByteStream() = default;

  /// Fills up to `size` bytes; 0 only at the end. Throws Error (kBadInput) with
  /// the file and the offset in it when it cannot be read, is damaged or, as a
  /// .zst file, cut short.
  virtual std::size_t read(void* out, std::size_t size) = 0;
  /// Bytes of the file itself (packed ones for .zst) that were read so far.
  virtual std::uint64_t file_offset() const = 0;
};

/// .zst files may hold several frames; memory is one frame's window, at most
/// 128 MiB.
std::unique_ptr<ByteStream> open_byte_stream(const std::filesystem::path& path);

}  // namespace osdn::data
