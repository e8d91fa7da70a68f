#pragma once
// Shard after shard in one folder; their number goes into each at the end.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "osdn/data/token_shard.h"

namespace osdn::data {

class ShardSetWriter {
 public:
  /// A shard has at most `shard_tokens` tokens, or one document.
  ShardSetWriter(std::filesystem::path folder, ShardHeader description,
                 std::uint64_t shard_tokens);

  /// As TokenShardWriter::add_document; without labels these are empty.
  void add_document(std::span<const std::int32_t> ids,
                    std::span<const std::int64_t> labels = {});
  /// The number of shards.
  std::uint64_t finish();

 private:
  void finish_shard();

  const std::filesystem::path folder_;
  ShardHeader description_;
  const std::uint64_t shard_tokens_;
  std::unique_ptr<TokenShardWriter> writer_;
  std::vector<std::pair<std::filesystem::path, ShardHeader>> finished_;
};

}  // namespace osdn::data
