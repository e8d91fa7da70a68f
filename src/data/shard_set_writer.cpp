#include "shard_set_writer.h"

#include <cstdio>

#include "osdn/core/concat.h"
#include "osdn/core/narrow.h"
#include "osdn/data/token_dataset.h"

namespace osdn::data {

ShardSetWriter::ShardSetWriter(std::filesystem::path folder,
                               ShardHeader description,
                               std::uint64_t shard_tokens)
    : folder_(std::move(folder)),
      description_(std::move(description)),
      shard_tokens_(shard_tokens) {}

void ShardSetWriter::add_document(std::span<const std::int32_t> ids,
                                  std::span<const std::int64_t> labels) {
  if (writer_ && writer_->token_count() + ids.size() > shard_tokens_) {
    finish_shard();
  }
  if (!writer_) {
    char name[32];
    std::snprintf(name, sizeof(name), "shard-%05zu", finished_.size());
    description_.shard_index =
        narrow<std::uint32_t>(finished_.size(), "number of shards");
    writer_ = std::make_unique<TokenShardWriter>(
        folder_ / concat(name, kShardEnding), description_);
  }
  writer_->add_document(ids, labels);
}

std::uint64_t ShardSetWriter::finish() {
  if (writer_) finish_shard();
  if (finished_.size() > 1) {
    for (auto& [path, header] : finished_) {
      header.shard_count = narrow<std::uint32_t>(finished_.size());
      rewrite_header(path, header);
    }
  }
  return finished_.size();
}

void ShardSetWriter::finish_shard() {
  const std::filesystem::path path = writer_->path();
  finished_.emplace_back(path, writer_->finish());
  writer_.reset();
}

}  // namespace osdn::data
