#include "osdn/data/text_reader.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "document_source.h"
#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "osdn/core/json_text.h"
#include "osdn/core/path.h"
#include "osdn/core/utf8.h"

namespace osdn::data {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kEndings[] = {".txt", ".jsonl", ".txt.zst",
                                         ".jsonl.zst"};

bool has_known_ending(const fs::path& path) {
  const std::string name = path.filename().string();
  return std::any_of(
      std::begin(kEndings), std::end(kEndings),
      [&](std::string_view ending) { return name.ends_with(ending); });
}

std::string keys_of(const nlohmann::json& object) {
  std::string keys;
  for (const auto& item : object.items()) {
    keys += concat(keys.empty() ? "" : ", ", "\"", item.key(), "\"");
  }
  return keys.empty() ? "none" : keys;
}

}  // namespace

void set_split(TextOptions& options, std::string_view spelling) {
  constexpr std::string_view kMarkerPrefix = "marker:";
  options.marker.clear();
  if (spelling == "file") {
    options.split = Split::kFile;
  } else if (spelling == "lines") {
    options.split = Split::kLines;
  } else if (spelling == "blank-lines") {
    options.split = Split::kBlankLines;
  } else if (spelling.starts_with(kMarkerPrefix) &&
             spelling.size() > kMarkerPrefix.size() &&
             spelling.find('\n') == std::string_view::npos) {
    options.split = Split::kMarker;
    options.marker = spelling.substr(kMarkerPrefix.size());
  } else {
    throw Error(concat("split \"", spelling,
                       "\" is not known; use file, lines, blank-lines or "
                       "marker:STRING (a string without line ends)"),
                ExitCode::kUsage);
  }
}

bool holds_text(const fs::path& folder) {
  const std::vector<fs::path> files = files_in(folder);
  return std::any_of(files.begin(), files.end(), has_known_ending);
}

std::vector<fs::path> text_files(const std::vector<fs::path>& inputs) {
  std::vector<fs::path> files;
  for (const fs::path& input : inputs) {
    if (is_folder(input)) {
      std::vector<fs::path> inside = files_in(input);
      std::erase_if(
          inside, [](const fs::path& file) { return !has_known_ending(file); });
      if (inside.empty()) {
        throw Error(concat(input.string(),
                           ": no .txt, .jsonl, .txt.zst or .jsonl.zst file "
                           "in this folder"),
                    ExitCode::kBadInput);
      }
      files.insert(files.end(), inside.begin(), inside.end());
      continue;
    }
    if (!has_known_ending(input)) {
      if (!is_there(input)) {
        throw Error(concat(input.string(), ": does not exist"),
                    ExitCode::kBadInput);
      }
      throw Error(concat(input.string(),
                         ": unknown ending; expected .txt, .jsonl, .txt.zst "
                         "or .jsonl.zst"),
                  ExitCode::kUsage);
    }
    files.push_back(input);
  }
  return files;
}

TextReader::TextReader(std::vector<fs::path> files, TextOptions options)
    : files_(std::move(files)), options_(std::move(options)) {
  for (const fs::path& path : files_) {
    bytes_total_ += File::open_read(path).size();
  }
}

TextReader::~TextReader() = default;

std::uint64_t TextReader::bytes_done() const {
  return bytes_before_ + (source_ ? source_->file_offset() : 0);
}

std::optional<RawDocument> TextReader::next() {
  while (file_ < files_.size()) {
    if (!source_) {
      source_ = std::make_unique<DocumentSource>(files_[file_], options_);
    }
    if (std::optional<RawDocument> document = source_->next()) {
      document->file = file_;
      return document;
    }
    bytes_before_ += source_->file_offset();
    source_.reset();
    ++file_;
  }
  return std::nullopt;
}

std::string TextReader::text_of(const RawDocument& document) const {
  const fs::path& path = files_[document.file];
  if (const auto at = first_invalid_utf8(document.bytes)) {
    const auto lines = std::count(
        document.bytes.begin(),
        document.bytes.begin() + static_cast<std::ptrdiff_t>(*at), '\n');
    const auto byte = static_cast<unsigned char>(document.bytes[*at]);
    constexpr std::string_view kDigits = "0123456789abcdef";
    throw Error(
        concat(place_in(path, document.line + static_cast<std::uint64_t>(lines),
                        document.offset + *at),
               ": invalid UTF-8 (byte 0x", kDigits[byte >> 4],
               kDigits[byte & 15], "); convert the file to UTF-8"),
        ExitCode::kBadInput);
  }
  if (!is_json_lines(path)) {
    return document.bytes;
  }
  const std::string where = place_in(path, document.line, document.offset);
  std::vector<RepeatedKey> repeated;
  nlohmann::json json;
  try {
    json = parse_json(document.bytes, repeated);
  } catch (const nlohmann::json::parse_error& error) {
    // "byte" counts from 1 and stands behind the character that is wrong.
    const std::uint64_t at = error.byte > 0 ? error.byte - 1 : 0;
    throw Error(concat(place_in(path, document.line, document.offset + at),
                       ": is not JSON: ", error.what()),
                ExitCode::kBadInput);
  } catch (const nlohmann::json::exception& error) {  // a number of no size
    throw Error(concat(where, ": ", error.what()), ExitCode::kBadInput);
  }
  if (!json.is_object()) {
    throw Error(concat(where, ": expected a JSON object with the key \"",
                       options_.field, "\", got ", json.type_name()),
                ExitCode::kBadInput);
  }
  const auto found = json.find(options_.field);
  if (found == json.end()) {
    throw Error(concat(where, ": no key \"", options_.field,
                       "\" in the object; its keys: ", keys_of(json)),
                ExitCode::kBadInput);
  }
  // Other keys, and keys further in, are none of our business.
  if (std::any_of(repeated.begin(), repeated.end(),
                  [this](const RepeatedKey& one) {
                    return one.depth == 1 && one.key == options_.field;
                  })) {
    throw Error(concat(where, ": the key \"", options_.field,
                       "\" is there more than once; give each document one"),
                ExitCode::kBadInput);
  }
  if (!found->is_string()) {
    throw Error(concat(where, ": \"", options_.field, "\" is a ",
                       found->type_name(), ", expected a string"),
                ExitCode::kBadInput);
  }
  return std::move(found->get_ref<std::string&>());
}

}  // namespace osdn::data
