#pragma once
// Lines of a file, with their numbers and offsets.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "osdn/data/byte_stream.h"

namespace osdn::data {

/// One line; valid until the next call of next().
struct Line {
  std::string_view text;     ///< without LF; a CR before it is still there
  bool ended = false;        ///< an LF follows
  std::uint64_t number = 1;  ///< from 1
  std::uint64_t offset = 0;  ///< of the first byte, in the unpacked text
};

class LineSource {
 public:
  /// A line of more than `max_line_bytes` is an Error (kBadInput).
  LineSource(const std::filesystem::path& path, std::uint64_t max_line_bytes);

  /// False at the end. The last line may be without LF; an empty rest after the
  /// last LF is no line.
  bool next(Line& line);

  std::uint64_t file_offset() const { return stream_->file_offset(); }

 private:
  bool fill();

  std::filesystem::path path_;
  std::uint64_t max_line_bytes_;
  std::unique_ptr<ByteStream> stream_;
  std::string buffer_;
  std::size_t begin_ = 0;     // of what was not handed out yet
  std::uint64_t number_ = 0;  // of the line handed out last
  std::uint64_t offset_ = 0;  // of buffer_[begin_] in the unpacked text
};

}  // namespace osdn::data
