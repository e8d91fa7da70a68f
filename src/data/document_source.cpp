#include "document_source.h"

#include <utility>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"

namespace osdn::data {

namespace {

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

void drop_cr(std::string& bytes) {
  if (bytes.ends_with('\r')) {
    bytes.pop_back();
  }
}

}  // namespace

bool is_json_lines(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  return name.ends_with(".jsonl") || name.ends_with(".jsonl.zst");
}

std::string place_in(const std::filesystem::path& path, std::uint64_t line,
                     std::uint64_t offset) {
  return concat(path.string(), ": line ", line, ", offset ", offset,
                path.extension() == ".zst" ? " of the unpacked text" : "");
}

DocumentSource::DocumentSource(const std::filesystem::path& path,
                               const TextOptions& options)
    : path_(path),
      options_(options),
      lines_(path, options.max_document_bytes) {}

std::optional<RawDocument> DocumentSource::next() {
  if (is_json_lines(path_)) {
    return next_json_line();
  }
  switch (options_.split) {
    case Split::kLines:
      return next_line();
    case Split::kBlankLines:
      return next_paragraph();
    case Split::kMarker:
      return next_before_marker();
    case Split::kFile:
      break;
  }
  return next_whole_file();
}

std::optional<RawDocument> DocumentSource::next_json_line() {
  for (Line line; lines_.next(line);) {
    if (!is_blank(line.text)) {
      return RawDocument{std::string(line.text), 0, line.number, line.offset};
    }
  }
  return std::nullopt;
}

std::optional<RawDocument> DocumentSource::next_line() {
  Line line;
  if (!lines_.next(line)) {
    return std::nullopt;
  }
  RawDocument document{std::string(line.text), 0, line.number, line.offset};
  drop_cr(document.bytes);
  return document;
}

std::optional<RawDocument> DocumentSource::next_paragraph() {
  RawDocument document;
  bool inside = false;
  for (Line line; lines_.next(line);) {
    if (is_blank(line.text)) {
      if (inside) {
        break;
      }
      continue;
    }
    if (inside) {
      append(document, "\n");
    } else {
      inside = true;
      document.line = line.number;
      document.offset = line.offset;
    }
    append(document, line.text);
  }
  if (!inside) {
    return std::nullopt;
  }
  drop_cr(document.bytes);
  return document;
}

std::optional<RawDocument> DocumentSource::next_whole_file() {
  if (std::exchange(whole_file_done_, true)) {
    return std::nullopt;
  }
  RawDocument document;
  for (Line line; lines_.next(line);) {
    if (line.number == 1) {
      document.offset = line.offset;  // not 0 behind a byte order mark
    }
    append(document, line.text);
    if (line.ended) {
      append(document, "\n");
    }
  }
  return document;
}

std::optional<RawDocument> DocumentSource::next_before_marker() {
  RawDocument document;
  bool placed = false;
  while (have_line_ || lines_.next(line_)) {
    const bool after_marker = std::exchange(have_line_, true);
    const std::size_t from = after_marker ? line_at_ : 0;
    std::string_view rest = line_.text.substr(from);
    if (after_marker && (rest.empty() || rest == "\r")) {
      have_line_ = false;  // the line end right behind a marker
      continue;
    }
    if (!std::exchange(placed, true)) {
      document.line = line_.number;
      document.offset = line_.offset + from;
    }
    const std::size_t found = rest.find(options_.marker);
    if (found != std::string_view::npos) {
      append(document, rest.substr(0, found));
      line_at_ = from + found + options_.marker.size();
      if (found == 0 && document.bytes.ends_with('\n')) {
        document.bytes.pop_back();  // the line end right before it
        drop_cr(document.bytes);
      }
      return document;
    }
    append(document, rest);
    if (line_.ended) {
      append(document, "\n");
    }
    have_line_ = false;
  }
  // A marker at the file's end closes a document and opens none.
  if (document.bytes.empty()) {
    return std::nullopt;
  }
  return document;
}

void DocumentSource::append(RawDocument& document,
                            std::string_view bytes) const {
  if (document.bytes.size() + bytes.size() > options_.max_document_bytes) {
    throw Error(concat(place_in(path_, document.line, document.offset),
                       ": the document that starts here has more than ",
                       options_.max_document_bytes,
                       " bytes, the limit for a document; split the file into "
                       "smaller documents or raise the limit"),
                ExitCode::kBadInput);
  }
  document.bytes += bytes;
}

}  // namespace osdn::data
