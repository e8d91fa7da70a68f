#pragma once
// The first 256 bytes of a token shard; docs/formats.md describes them.

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

#include "osdn/core/hash.h"

namespace osdn::data {

constexpr std::uint64_t kShardHeaderBytes = 256;
/// The newest that is read. Shards without labels are written as version 1.
constexpr std::uint32_t kShardVersion = 2;

struct ShardHeader {
  std::uint32_t token_bytes = 2;  ///< 2 (u16) or 4 (u32)
  std::uint64_t vocab_size = 0;   ///< ids are below it
  Hash128 tokenizer_hash;         ///< XXH3 of the SentencePiece model file
  /// Ids that were put before or after each document; nothing: none was.
  std::optional<std::int32_t> bos_id;
  std::optional<std::int32_t> eos_id;
  std::uint64_t token_count = 0;
  std::uint64_t document_count = 0;
  std::uint64_t tokens_offset = kShardHeaderBytes;  ///< in bytes
  /// Labels of the tokens' own, as wide as the tokens; nothing: the label of a
  /// token is the next one. In bytes.
  std::optional<std::uint64_t> labels_offset;
  std::uint64_t documents_offset = 0;  ///< in bytes, of the table
  std::uint64_t file_bytes = 0;
  std::uint32_t shard_index = 0;   ///< in its set, from 0
  std::uint32_t shard_count = 1;   ///< of its set
  std::uint64_t payload_hash = 0;  ///< XXH3 of all bytes after the header

  bool operator==(const ShardHeader&) const = default;
};

/// Bytes of one token: 2 for a vocabulary of up to 65,536 ids, else 4; labels
/// have one value more, vocab_size itself, which means none.
std::uint32_t token_bytes_for(std::uint64_t vocab_size, bool labels = false);

/// Where labels, if there are any, and document table begin and the file ends
/// for given counts: fills labels_offset, documents_offset and file_bytes.
void set_layout(ShardHeader& header);

using HeaderBytes = std::array<std::byte, kShardHeaderBytes>;

/// With magic, version and the header's own hash.
HeaderBytes to_bytes(const ShardHeader& header);

/// Inverse of to_bytes. `path` is for messages, `file_bytes` the file's real
/// size. Throws Error (kBadInput) with file and offset: not a shard, a later
/// version, a damaged header, a size other than the header's (cut short),
/// zero tokens.
ShardHeader parse_header(std::span<const std::byte> bytes,
                         std::uint64_t file_bytes,
                         const std::filesystem::path& path);

}  // namespace osdn::data
