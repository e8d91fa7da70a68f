#include "osdn/data/token_dataset.h"

#include <algorithm>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "osdn/core/path.h"

namespace osdn::data {

namespace fs = std::filesystem;

namespace {

std::vector<fs::path> shards_in(const fs::path& folder) {
  std::vector<fs::path> files = files_in(folder);
  std::erase_if(files, [](const fs::path& file) {
    return file.extension() != kShardEnding;
  });
  if (files.empty()) {
    throw Error(concat(folder.string(), ": no ", kShardEnding,
                       " file in this folder; make some with osdn-data "
                       "tokenize"),
                ExitCode::kBadInput);
  }
  return files;
}

// A folder that was copied in part must not pass for the whole.
void check_set(const fs::path& folder, std::span<const TokenShard> shards) {
  const std::uint32_t count = shards.front().header().shard_count;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const ShardHeader& header = shards[i].header();
    if (header.shard_index != i || header.shard_count != count) {
      throw Error(concat(shards[i].path().string(), ": is shard ",
                         header.shard_index + 1, " of ", header.shard_count,
                         ", expected shard ", i + 1, " of ", count,
                         "; a folder must hold one whole set (name the files "
                         "one by one to use only some)"),
                  ExitCode::kBadInput);
    }
  }
  if (shards.size() != count) {
    throw Error(concat(folder.string(), ": shard ", shards.size() + 1, " of ",
                       count, " is missing; copy or make the set again"),
                ExitCode::kBadInput);
  }
}

}  // namespace

std::vector<fs::path> shard_files(const std::vector<fs::path>& inputs) {
  std::vector<fs::path> files;
  for (const fs::path& input : inputs) {
    if (is_folder(input)) {
      const std::vector<fs::path> inside = shards_in(input);
      files.insert(files.end(), inside.begin(), inside.end());
    } else {
      files.push_back(input);
    }
  }
  return files;
}

TokenDataset::TokenDataset(const std::vector<fs::path>& inputs,
                           const ExpectedData& expected)
    : first_document_{0} {
  if (inputs.empty()) {
    throw Error("no token shards were given", ExitCode::kUsage);
  }
  for (const fs::path& input : inputs) {
    const std::size_t before = shards_.size();
    for (const fs::path& file : shard_files({input})) {
      const TokenShard& shard = shards_.emplace_back(file);
      first_document_.push_back(document_count() + shard.document_count());
      token_count_ += shard.token_count();
    }
    if (is_folder(input)) {
      check_set(input, std::span<const TokenShard>(shards_).subspan(before));
    }
  }
  check(expected);
}

void TokenDataset::check(const ExpectedData& expected) const {
  const TokenShard& first = shards_.front();
  for (const TokenShard& shard : shards_) {
    const ShardHeader& header = shard.header();
    if (expected.tokenizer_hash &&
        header.tokenizer_hash != *expected.tokenizer_hash) {
      throw Error(
          concat(shard.path().string(),
                 ": offset 32: made with the tokenizer of hash ",
                 to_hex(header.tokenizer_hash), ", the one in use has hash ",
                 to_hex(*expected.tokenizer_hash),
                 "; tokenize the text again or use that tokenizer"),
          ExitCode::kBadInput);
    }
    if (header.tokenizer_hash != first.header().tokenizer_hash ||
        header.vocab_size != first.header().vocab_size) {
      throw Error(
          concat(shard.path().string(), ": offset 24: made with the tokenizer ",
                 to_hex(header.tokenizer_hash), " of ", header.vocab_size,
                 " ids, but ", first.path().string(), " with ",
                 to_hex(first.header().tokenizer_hash), " of ",
                 first.header().vocab_size,
                 " ids; use shards of one tokenizer"),
          ExitCode::kBadInput);
    }
    if (header.labels_offset.has_value() != has_labels()) {
      throw Error(
          concat(shard.path().string(),
                 has_labels() ? ": has no labels of its own, but "
                              : ": has labels of its own, but ",
                 first.path().string(), has_labels() ? " has" : " has none",
                 "; use shards of one kind"),
          ExitCode::kBadInput);
    }
    if (expected.vocab_size && header.vocab_size > *expected.vocab_size) {
      throw Error(
          concat(shard.path().string(),
                 ": offset 24: holds ids of a vocabulary of ",
                 header.vocab_size, ", the model's has ", *expected.vocab_size,
                 "; set model.vocab_size to at least ", header.vocab_size),
          ExitCode::kBadInput);
    }
  }
}

TokenDataset::Place TokenDataset::place_of(std::uint64_t document) const {
  const auto after = std::upper_bound(first_document_.begin(),
                                      first_document_.end(), document);
  const auto shard =
      static_cast<std::size_t>(after - first_document_.begin()) - 1;
  return {shards_[shard], document - first_document_[shard]};
}

std::uint64_t TokenDataset::document_length(std::uint64_t document) const {
  const Place place = place_of(document);
  return place.shard.document_length(place.document);
}

void TokenDataset::read(std::uint64_t document, std::uint64_t first,
                        std::span<std::int32_t> out) const {
  const Place place = place_of(document);
  place.shard.read(place.shard.document_begin(place.document) + first, out);
}

void TokenDataset::read_labels(std::uint64_t document, std::uint64_t first,
                               std::span<std::int64_t> out) const {
  const Place place = place_of(document);
  place.shard.read_labels(place.shard.document_begin(place.document) + first,
                          out);
}

std::uint64_t TokenDataset::content_hash() const {
  Xxh3 hash;
  for (const TokenShard& shard : shards_) {
    const std::uint64_t facts[] = {shard.header().payload_hash,
                                   shard.token_count(), shard.document_count()};
    hash.update(facts, sizeof(facts));
  }
  return hash.digest64();
}

}  // namespace osdn::data
