#pragma once
// The texts that an evaluation reads, document by document.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace osdn::eval {

/// What the model reads, and what its perplexities are counted by.
struct EvalDocument {
  std::string text;
  std::int64_t words = 0;
  std::int64_t bytes = 0;
};

struct DataOptions {
  std::vector<std::filesystem::path> inputs{};  ///< files or folders
  std::string split = "file";           ///< of .txt files, data::set_split
  std::string field = "text";           ///< of .jsonl files
  std::optional<std::int64_t> limit{};  ///< first documents only
};

struct DataSet {
  std::string name{};  ///< file names, with folders where one is there twice
  std::string hash{};  ///< SHA-256 of the file; of the files' hashes if several
  std::vector<EvalDocument> documents{};
  std::int64_t dropped = 0;  ///< documents without a byte
  bool limited = false;      ///< DataOptions::limit left some out
};

/// .txt and .jsonl files, also .zst, and folders of them; of several inputs
/// folders without one are passed over, and of several files those with the
/// name of a task's set, where others are left. Each file is read once. Throws
/// Error: kUsage without inputs, kBadInput for missing ones and bad text.
DataSet read_text_documents(const DataOptions& options);

/// WikiText-2: the raw test file, or a .jsonl file with an article a line in
/// "page". Words and bytes are those before the detokenisation. Throws Error
/// (kBadInput) for what cannot be read.
DataSet read_wikitext(const std::filesystem::path& file,
                      const std::optional<std::int64_t>& limit);

}  // namespace osdn::eval
