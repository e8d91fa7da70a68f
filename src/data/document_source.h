#pragma once
// The documents of one text file, as they stand in it.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "line_source.h"
#include "osdn/data/text_reader.h"

namespace osdn::data {

bool is_json_lines(const std::filesystem::path& path);

/// "FILE: line 3, offset 120", for messages.
std::string place_in(const std::filesystem::path& path, std::uint64_t line,
                     std::uint64_t offset);

class DocumentSource {
 public:
  DocumentSource(const std::filesystem::path& path, const TextOptions& options);

  /// Leaves RawDocument::file for the caller to fill.
  std::optional<RawDocument> next();

  std::uint64_t file_offset() const { return lines_.file_offset(); }

 private:
  std::optional<RawDocument> next_json_line();
  std::optional<RawDocument> next_line();
  std::optional<RawDocument> next_paragraph();
  std::optional<RawDocument> next_whole_file();
  std::optional<RawDocument> next_before_marker();
  void append(RawDocument& document, std::string_view bytes) const;

  const std::filesystem::path path_;
  const TextOptions& options_;
  LineSource lines_;
  bool whole_file_done_ = false;
  // For Split::kMarker: the line that a marker was found in, and what of it was
  // handed out.
  Line line_;
  bool have_line_ = false;
  std::size_t line_at_ = 0;
};

}  // namespace osdn::data
