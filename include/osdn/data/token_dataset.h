#pragma once
// Several token shards as one list of documents.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "osdn/core/hash.h"
#include "osdn/data/token_shard.h"

namespace osdn::data {

/// Ending of the shard files that a folder is searched for.
constexpr std::string_view kShardEnding = ".tokens";

/// What the shards must agree with; nothing: not checked.
struct ExpectedData {
  std::optional<Hash128> tokenizer_hash = {};  ///< of the tokenizer in use
  std::optional<std::uint64_t> vocab_size =
      {};  ///< of the model: ids are below it
};

/// The shards that `inputs` mean: a file stands for itself, a folder for the
/// *.tokens files in it, by name. Throws Error (kBadInput) for one that is
/// missing or a folder without any.
std::vector<std::filesystem::path> shard_files(
    const std::vector<std::filesystem::path>& inputs);

/// Documents are numbered through all shards in the order given. Const
/// functions may be called from several threads.
class TokenDataset {
 public:
  /// Opens everything. Throws Error (kBadInput) for an unsound shard, for
  /// shards of different tokenizers, for one that does not agree with
  /// `expected`, and for a folder whose set of shards is not complete.
  explicit TokenDataset(const std::vector<std::filesystem::path>& inputs,
                        const ExpectedData& expected = {});

  std::uint64_t document_count() const { return first_document_.back(); }
  std::uint64_t token_count() const { return token_count_; }
  std::uint64_t vocab_size() const {
    return shards_.front().header().vocab_size;
  }
  const std::vector<TokenShard>& shards() const { return shards_; }

  /// The shards have labels of their own: all of them, or none.
  bool has_labels() const {
    return shards_.front().header().labels_offset.has_value();
  }

  std::uint64_t document_length(std::uint64_t document) const;
  /// Tokens of a document from its token `first` on; the whole range must lie
  /// in it. Throws Error as TokenShard::read.
  void read(std::uint64_t document, std::uint64_t first,
            std::span<std::int32_t> out) const;
  /// The labels of these tokens, where has_labels().
  void read_labels(std::uint64_t document, std::uint64_t first,
                   std::span<std::int64_t> out) const;

  /// XXH3 over the shards' payload hashes and counts: the same for the same
  /// documents in the same order in the same shards, wherever they lie.
  std::uint64_t content_hash() const;

 private:
  struct Place {
    const TokenShard& shard;
    std::uint64_t document;  // within the shard
  };

  Place place_of(std::uint64_t document) const;
  void check(const ExpectedData& expected) const;

  std::vector<TokenShard> shards_;
  std::vector<std::uint64_t> first_document_;  // one more than shards
  std::uint64_t token_count_ = 0;
};

}  // namespace osdn::data
