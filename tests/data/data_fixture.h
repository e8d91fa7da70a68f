#pragma once
// Made-up documents and shards for the tests of data.

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/data/token_dataset.h"
#include "osdn/data/token_shard.h"
#include "support/temp_dir.h"

namespace osdn::data {

using Ids = std::vector<std::int32_t>;

/// The message of the Error that `call` throws; fails when there is none or its
/// code is another.
inline std::string error_of(const std::function<void()>& call,
                            ExitCode code = ExitCode::kBadInput) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code))
        << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

/// A new file, without the syncing of write_file_atomic: tests write many.
inline void put_file(const std::filesystem::path& path,
                     const std::string& content) {
  std::filesystem::remove(path);
  std::ofstream out(path, std::ios::binary);
  out << content;
  ASSERT_TRUE(out.flush()) << path;
}

inline ShardHeader description(std::uint64_t vocab_size = 60000) {
  ShardHeader header;
  header.vocab_size = vocab_size;
  header.tokenizer_hash = {1, 2};
  return header;
}

/// Documents of the given lengths whose tokens count up from 0 through all of
/// them: each token of a dataset below the vocabulary is there once.
inline std::vector<Ids> counting_documents(
    const std::vector<std::uint64_t>& lengths) {
  std::vector<Ids> documents;
  std::int32_t next = 0;
  for (const std::uint64_t length : lengths) {
    Ids& ids = documents.emplace_back(length);
    for (std::int32_t& id : ids) {
      id = next++;
    }
  }
  return documents;
}

/// Writes the documents into `shards` shards of about equally many documents,
/// in a folder of their own.
inline std::filesystem::path write_shards(const std::filesystem::path& folder,
                                          const std::vector<Ids>& documents,
                                          std::size_t shards = 1,
                                          ShardHeader header = description()) {
  std::filesystem::create_directories(folder);
  for (std::size_t s = 0; s < shards; ++s) {
    header.shard_index = static_cast<std::uint32_t>(s);
    header.shard_count = static_cast<std::uint32_t>(shards);
    TokenShardWriter writer(folder / concat("s", s, kShardEnding), header);
    for (std::size_t d = s * documents.size() / shards;
         d < (s + 1) * documents.size() / shards; ++d) {
      writer.add_document(documents[d]);
    }
    writer.finish();
  }
  return folder;
}

inline std::shared_ptr<const TokenDataset> make_dataset(
    const test::TempDir& dir, const std::vector<std::uint64_t>& lengths,
    std::size_t shards = 1) {
  static int counter = 0;
  return std::make_shared<const TokenDataset>(
      std::vector<std::filesystem::path>{
          write_shards(dir / concat("set", counter++),
                       counting_documents(lengths), shards)});
}

}  // namespace osdn::data
