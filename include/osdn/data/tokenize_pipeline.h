#pragma once
// Text files to a folder of token shards.

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "osdn/data/text_reader.h"

namespace osdn::data {

/// Whether an id is put at a document's border.
enum class AddId { kAuto, kOn, kOff };

/// "auto", "on" or "off"; throws Error (kUsage) naming these otherwise.
AddId add_id_from_name(std::string_view name);

struct TokenizeOptions {
  std::vector<std::filesystem::path> inputs;  ///< as text_files()
  std::filesystem::path output;     ///< a folder; appears when all is done
  std::filesystem::path tokenizer;  ///< a SentencePiece model
  TextOptions text;
  /// Before each document. Automatic: when the tokenizer defines the id. On:
  /// an Error when it does not.
  AddId bos = AddId::kAuto;
  /// After each document. Automatic: when it defines this and no BOS is put, so
  /// that each document has a mark.
  AddId eos = AddId::kAuto;
  /// A shard ends before the document that would make it larger; a document
  /// larger than this is a shard of its own.
  std::uint64_t shard_tokens = 1'000'000'000;
  std::int64_t threads = 0;  ///< 0: all cores
  bool overwrite = false;    ///< replace shards that are there already
  bool progress = true;      ///< a progress line on stdout
};

struct TokenizeResult {
  std::uint64_t documents = 0;
  std::uint64_t empty_documents = 0;  ///< left out: no text or no ids
  std::uint64_t tokens = 0;           ///< with BOS and EOS
  std::uint64_t text_bytes = 0;       ///< UTF-8 bytes of the documents
  std::uint64_t shards = 0;
  double seconds = 0;
};

/// Documents keep their order and the output its bytes, whatever the number of
/// threads. Where a document begins is recorded here, as it is tokenised, and
/// never inferred from ids: text may hold the BOS id, a tokenizer may define
/// one that it does not emit. SentencePiece emits neither for text, so that
/// none is doubled.
///
/// Memory: some documents a thread (at most 256 MiB of text, or one document)
/// and 8 bytes a document of the shard at hand. Throws Error for empty input
/// and all that TextReader and Tokenizer find; then, as when it is killed, the
/// output is as it was.
TokenizeResult tokenize(const TokenizeOptions& options);

}  // namespace osdn::data
