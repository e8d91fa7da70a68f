#include "osdn/data/inspect.h"

#include <algorithm>
#include <array>
#include <bit>

#include "osdn/core/concat.h"
#include "osdn/core/narrow.h"
#include "osdn/report/progress.h"
#include "osdn/report/table.h"

namespace osdn::data {

namespace {

std::string id_text(const std::optional<std::int32_t>& id) {
  return id ? concat(*id) : std::string("none");
}

std::string describe_shard(const TokenShard& shard) {
  const ShardHeader& header = shard.header();
  return concat(
      shard.path().string(), "\n  shard            ", header.shard_index + 1,
      " of ", header.shard_count, "\n  format version   ",
      header.labels_offset ? 2 : 1, "\n  token type       ",
      header.token_bytes == 2 ? "u16" : "u32", "\n  vocabulary       ",
      header.vocab_size, "\n  tokenizer hash   ", to_hex(header.tokenizer_hash),
      "\n  BOS before each  ", id_text(header.bos_id), "\n  EOS after each   ",
      id_text(header.eos_id), "\n  tokens           ", header.token_count,
      " at offset ", header.tokens_offset, "\n  labels           ",
      header.labels_offset
          ? concat("their own, at offset ", *header.labels_offset)
          : std::string("the next token"),
      "\n  documents        ", header.document_count, " at offset ",
      header.documents_offset, "\n  bytes            ", header.file_bytes,
      "\n  payload hash     ", to_hex(header.payload_hash), "\n");
}

struct LengthStatistics {
  std::uint64_t shortest = ~std::uint64_t{0};
  std::uint64_t longest = 0;
  // Bucket b: lengths from 2^b to 2^(b+1) - 1.
  std::array<std::uint64_t, 64> documents{};
  std::array<std::uint64_t, 64> tokens{};
};

LengthStatistics length_statistics(const TokenDataset& dataset) {
  LengthStatistics statistics;
  for (const TokenShard& shard : dataset.shards()) {
    for (std::uint64_t d = 0; d < shard.document_count(); ++d) {
      const std::uint64_t length = shard.document_length(d);
      const auto bucket = static_cast<std::size_t>(std::bit_width(length)) - 1;
      statistics.shortest = std::min(statistics.shortest, length);
      statistics.longest = std::max(statistics.longest, length);
      ++statistics.documents[bucket];
      statistics.tokens[bucket] += length;
    }
  }
  return statistics;
}

}  // namespace

std::string describe(const TokenDataset& dataset) {
  std::string text;
  for (const TokenShard& shard : dataset.shards()) {
    text += describe_shard(shard);
  }
  const LengthStatistics statistics = length_statistics(dataset);
  text += concat("all\n  shards           ", dataset.shards().size(),
                 "\n  tokens           ", dataset.token_count(),
                 "\n  documents        ", dataset.document_count(),
                 "\n  tokens/document  shortest ", statistics.shortest,
                 ", mean ", dataset.token_count() / dataset.document_count(),
                 ", longest ", statistics.longest, "\n  content hash     ",
                 to_hex(dataset.content_hash()), "\n\n");
  report::Table table({{.title = "tokens from"},
                       {.title = "to"},
                       {.title = "documents"},
                       {.title = "tokens"},
                       {.title = "share", .align = report::Align::kLeft}});
  const auto all = static_cast<double>(dataset.token_count());
  for (std::size_t b = 0; b < statistics.documents.size(); ++b) {
    if (statistics.documents[b] == 0) {
      continue;
    }
    const double share = static_cast<double>(statistics.tokens[b]) / all;
    const std::uint64_t from = std::uint64_t{1} << b;
    table.add_row(
        {concat(from), concat(from + (from - 1)),
         concat(statistics.documents[b]), concat(statistics.tokens[b]),
         std::string(static_cast<std::size_t>(share * 50 + 0.5), '#')});
  }
  return text + table.text();
}

std::string first_documents(const TokenDataset& dataset,
                            const tokenizer::Tokenizer& tokenizer,
                            std::uint64_t count, std::uint64_t max_tokens) {
  std::string text;
  std::vector<std::int32_t> ids;
  for (std::uint64_t d = 0; d < std::min(count, dataset.document_count());
       ++d) {
    const std::uint64_t length = dataset.document_length(d);
    ids.resize(static_cast<std::size_t>(std::min(length, max_tokens)));
    dataset.read(d, 0, ids);
    text += concat("--- document ", d, ", ", length, " tokens",
                   ids.size() < length ? concat(", the first ", ids.size())
                                       : std::string(),
                   "\n", tokenizer.decode(ids), "\n");
  }
  return text;
}

void verify(const std::vector<std::filesystem::path>& inputs,
            const ExpectedData& expected,
            const std::function<void(const std::string&)>& line) {
  const TokenDataset dataset(inputs, expected);
  for (const TokenShard& shard : dataset.shards()) {
    shard.verify();
    line(concat(shard.path().string(), ": sound, ", shard.token_count(),
                " tokens in ", shard.document_count(), " documents"));
  }
}

bool verify(std::span<const TokenDataset* const> datasets,
            const std::function<bool()>& stop) {
  std::vector<const TokenShard*> shards;
  std::uint64_t bytes = 0;
  for (const TokenDataset* dataset : datasets) {
    for (const TokenShard& shard : dataset->shards()) {
      shards.push_back(&shard);
      bytes += shard.payload_bytes();
    }
  }
  // Small data are done before a status would be read.
  report::Progress progress({.label = "verify the shards",
                             .unit = "B",
                             .total = narrow<std::int64_t>(bytes),
                             .quiet_s = 1});
  std::uint64_t before = 0;
  for (const TokenShard* shard : shards) {
    const auto go_on = [&](std::uint64_t done) {
      progress.update(narrow<std::int64_t>(before + done));
      return !stop();
    };
    if (!shard->verify(go_on)) {
      return false;
    }
    before += shard->payload_bytes();
    progress.update(narrow<std::int64_t>(before));
  }
  progress.finish();
  return true;
}

}  // namespace osdn::data
