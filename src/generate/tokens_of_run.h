#pragma once
// What the token shards of a run say about its tokens.

#include <cstdint>
#include <filesystem>
#include <optional>

#include "osdn/config/config.h"
#include "osdn/core/hash.h"

namespace osdn::generate {

struct TokensOfRun {
  std::filesystem::path named_by;      ///< shard, or SentencePiece model
  std::optional<Hash128> tokenizer{};  ///< XXH3 of the SentencePiece model
  bool has_shard = false;
  std::optional<std::int32_t> bos_id{};  ///< in front of each document
};

/// From the run's first shard; where that is not there any more, from the
/// tokenizer that the configuration names, if that is.
TokensOfRun tokens_of_run(const config::DataConfig& data);

}  // namespace osdn::generate
