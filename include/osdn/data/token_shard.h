#pragma once
// A token shard on disk: ids of many documents and where each one starts.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "osdn/core/file.h"
#include "osdn/core/hash.h"
#include "osdn/data/shard_header.h"

namespace osdn::data {

/// The label of a position that has none.
constexpr std::int64_t kNoLabel = -100;

/// Writes one shard document by document; memory is 8 bytes a document and a
/// buffer, and where there are labels these. The file gets its name in finish()
/// and not before; without it nothing is left.
class TokenShardWriter {
 public:
  /// `description` gives vocab_size, tokenizer_hash, bos_id, eos_id and the
  /// place in the set; the rest is filled here.
  TokenShardWriter(const std::filesystem::path& path, ShardHeader description);
  ~TokenShardWriter();
  TokenShardWriter(const TokenShardWriter&) = delete;
  TokenShardWriter& operator=(const TokenShardWriter&) = delete;

  /// At least one id. An id that is not in [0, vocab_size) is an Error.
  void add_document(std::span<const std::int32_t> ids);
  /// The same with a label for each id: kNoLabel, or in [0, vocab_size). Either
  /// all documents of a shard have labels or none has; else it is an Error.
  void add_document(std::span<const std::int32_t> ids,
                    std::span<const std::int64_t> labels);

  std::uint64_t token_count() const { return header_.token_count; }
  std::uint64_t document_count() const { return header_.document_count; }
  const std::filesystem::path& path() const { return out_.path(); }

  /// Writes table and header, syncs, renames. Throws Error for a shard without
  /// documents. Returns the header as written.
  ShardHeader finish();

 private:
  void flush();
  /// Zeros up to `offset` of the file.
  void pad_to(std::uint64_t offset);
  void append(std::span<const std::uint8_t> bytes);

  ShardHeader header_;
  std::uint64_t written_ = kShardHeaderBytes;  // bytes of the file
  std::vector<std::uint8_t> labels_;
  AtomicFile out_;
  Xxh3 payload_;
  std::vector<std::uint8_t> buffer_;
  std::vector<std::uint64_t> document_begins_;
};

/// Writes a new header into a finished shard, synced: the place in a set is
/// known only when the set is.
void rewrite_header(const std::filesystem::path& path,
                    const ShardHeader& header);

/// A shard in memory-mapped form. Opening checks header, sizes and document
/// table; reading checks each id; verify() checks every byte. Const functions
/// may be called from several threads.
class TokenShard {
 public:
  /// Throws Error (kBadInput) with file and offset for a file that is no sound
  /// shard.
  explicit TokenShard(const std::filesystem::path& path);

  const ShardHeader& header() const { return header_; }
  const std::filesystem::path& path() const { return map_.path(); }
  std::uint64_t token_count() const { return header_.token_count; }
  std::uint64_t document_count() const { return header_.document_count; }

  /// Index of a document's first token; document_begin(document_count()) is
  /// token_count().
  std::uint64_t document_begin(std::uint64_t document) const;
  std::uint64_t document_length(std::uint64_t document) const {
    return document_begin(document + 1) - document_begin(document);
  }

  /// Copies out.size() tokens from token `first` on. Throws Error (kBadInput)
  /// with file, offset and id for one outside the vocabulary.
  void read(std::uint64_t first, std::span<std::int32_t> out) const;
  /// The same for the labels of a shard that has some; kNoLabel is none.
  void read_labels(std::uint64_t first, std::span<std::int64_t> out) const;

  /// Every byte after the header: their number, for a progress line.
  std::uint64_t payload_bytes() const {
    return map_.size() - kShardHeaderBytes;
  }
  /// Every byte against the payload hash, every id against the vocabulary, in
  /// one pass. `go_on` is asked after every 16 MiB, with the bytes that are
  /// done, while more remain: false ends the check, and false is returned.
  /// Throws Error (kBadInput) with file and offset.
  bool verify(const std::function<bool(std::uint64_t)>& go_on = {}) const;

 private:
  void check_document_table() const;
  /// Reads the ids that lie in the bytes [begin, end), through `ids`. The two
  /// lie a multiple of 4 bytes behind the header, or are the file's end.
  void check_ids(std::uint64_t begin, std::uint64_t end,
                 std::vector<std::int32_t>& ids) const;

  MappedFile map_;
  ShardHeader header_;
};

}  // namespace osdn::data
