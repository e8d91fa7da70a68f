#pragma once
// Token ids that are there already, with labels of their own, to token shards.

#include <cstdint>
#include <filesystem>
#include <vector>

namespace osdn::data {

struct PackIdsOptions {
  /// .jsonl files, also .zst, or folders of such. A line is a document:
  /// "tokens", ids, and, in all lines or in none, "labels", one for each id:
  /// an id, or -100 for none.
  std::vector<std::filesystem::path> inputs{};
  std::filesystem::path output{};  ///< folder of the shards
  std::int64_t vocab_size = 0;     ///< ids are below it
  std::uint64_t shard_tokens = std::uint64_t{1} << 27;  ///< most of one shard
  bool overwrite = false;
};

struct PackIdsResult {
  std::uint64_t documents = 0;
  std::uint64_t tokens = 0;
  std::uint64_t labels = 0;  ///< other than -100; 0 without labels
  std::uint64_t shards = 0;
};

/// Throws Error: kUsage for options, kBadInput naming file and line for what is
/// not such a document.
PackIdsResult pack_ids(const PackIdsOptions& options);

}  // namespace osdn::data
