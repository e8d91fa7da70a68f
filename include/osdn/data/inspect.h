#pragma once
// What is in token shards, as text for people, and whether it is sound.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "osdn/data/token_dataset.h"
#include "osdn/tokenizer/tokenizer.h"

namespace osdn::data {

/// Header of each shard, counts, and a histogram of document lengths in powers
/// of two.
std::string describe(const TokenDataset& dataset);

/// The first `count` documents decoded, each cut to `max_tokens` tokens.
std::string first_documents(const TokenDataset& dataset,
                            const tokenizer::Tokenizer& tokenizer,
                            std::uint64_t count, std::uint64_t max_tokens);

/// Opens the shards one after another and checks every byte and id of each;
/// `line` gets a sentence for each sound one. Throws Error (kBadInput) with
/// file and offset at the first fault.
void verify(const std::vector<std::filesystem::path>& inputs,
            const ExpectedData& expected,
            const std::function<void(const std::string&)>& line);

/// The same for datasets that are open, with a progress line on stdout. `stop`
/// is asked about every 16 MiB: true ends the check, and false is returned.
bool verify(std::span<const TokenDataset* const> datasets,
            const std::function<bool()>& stop);

}  // namespace osdn::data
