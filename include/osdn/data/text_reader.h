#pragma once
// Documents from text files: .txt, .jsonl, .txt.zst, .jsonl.zst.
//
// Files are streamed: memory is one document and a read buffer.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace osdn::data {

/// What one document of a .txt file is. Line ends are LF or CR LF.
enum class Split {
  kFile,        ///< "file": the whole file
  kLines,       ///< "lines": each line, without its end
  kBlankLines,  ///< "blank-lines": lines between lines of white space only
  kMarker,      ///< "marker:STRING": what stands between two STRINGs, without
                ///< them and without a line end right beside them
};

struct TextOptions {
  Split split = Split::kFile;
  std::string marker;          ///< Split::kMarker: not empty, within a line
  std::string field = "text";  ///< .jsonl: the key of the document's text
  /// A longer document or .jsonl line is an error: it would have to be in
  /// memory whole, and a tokenizer needs a few hundred times its size.
  std::uint64_t max_document_bytes = std::uint64_t{64} << 20;
};

/// Sets `split` and `marker` from the spelling above; throws Error (kUsage).
void set_split(TextOptions& options, std::string_view spelling);

/// A document as it stands in its file: text, or one line of JSON.
struct RawDocument {
  std::string bytes;
  std::size_t file = 0;      ///< index into TextReader::files()
  std::uint64_t line = 1;    ///< of the first byte, from 1
  std::uint64_t offset = 0;  ///< of the first byte, in the unpacked text
};

/// The files that `inputs` mean: a file stands for itself, a folder for the
/// files with the four endings in it (not below it), by name. Throws Error: a
/// missing input is kBadInput, another ending kUsage.
std::vector<std::filesystem::path> text_files(
    const std::vector<std::filesystem::path>& inputs);

/// Whether a folder has a file with one of the four endings in it. Throws Error
/// (kBadInput) when it cannot be listed.
bool holds_text(const std::filesystem::path& folder);

class DocumentSource;

/// The documents of several files, one after another. A byte order mark at a
/// file's start is passed over, and so are .jsonl lines of white space only.
class TextReader {
 public:
  TextReader(std::vector<std::filesystem::path> files, TextOptions options);
  ~TextReader();
  TextReader(const TextReader&) = delete;
  TextReader& operator=(const TextReader&) = delete;

  /// The next document; nothing at the end. Empty documents are handed out.
  std::optional<RawDocument> next();

  /// The text of a document: for .jsonl the string in the field. Checked to be
  /// UTF-8; Error (kBadInput) with file, line and offset where it is not, and
  /// for JSON that has no such string. May be called from several threads.
  std::string text_of(const RawDocument& document) const;

  /// Bytes of the files as stored: read so far, and in all.
  std::uint64_t bytes_done() const;
  std::uint64_t bytes_total() const { return bytes_total_; }
  const std::vector<std::filesystem::path>& files() const { return files_; }

 private:
  std::vector<std::filesystem::path> files_;
  TextOptions options_;
  std::uint64_t bytes_total_ = 0;
  std::uint64_t bytes_before_ = 0;  // of the files that are finished
  std::size_t file_ = 0;
  std::unique_ptr<DocumentSource> source_;
};

}  // namespace osdn::data
