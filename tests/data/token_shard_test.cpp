#include "osdn/data/token_shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>

#include "data_fixture.h"
#include "osdn/core/random.h"
#include "osdn/data/micro_batch.h"
#include "osdn/data/packing.h"

namespace osdn::data {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

fs::path write_one(const test::TempDir& dir, const std::vector<Ids>& documents,
                   std::uint64_t vocab_size = 60000) {
  const fs::path path = dir / "one.tokens";
  TokenShardWriter writer(path, description(vocab_size));
  for (const Ids& ids : documents) {
    writer.add_document(ids);
  }
  writer.finish();
  return path;
}

void change_byte(const fs::path& path, std::uint64_t offset, unsigned mask) {
  File file = File::open_update(path);
  unsigned char byte = 0;
  file.read_at(offset, &byte, 1);
  byte = static_cast<unsigned char>(byte ^ mask);
  file.write_at(offset, &byte, 1);
}

Ids read_document(const TokenShard& shard, std::uint64_t document) {
  Ids ids(shard.document_length(document));
  shard.read(shard.document_begin(document), ids);
  return ids;
}

TEST(TokenShard, round_trip) {
  test::TempDir dir;
  ShardHeader header = description(32000);
  header.bos_id = 1;
  header.shard_index = 2;
  header.shard_count = 5;
  TokenShardWriter writer(dir / "a.tokens", header);
  writer.add_document(Ids{1, 31999, 0});
  writer.add_document(Ids{7});
  writer.add_document(Ids{1, 5});
  EXPECT_FALSE(fs::exists(dir / "a.tokens")) << "no name before it is whole";
  const ShardHeader written = writer.finish();

  const TokenShard shard(dir / "a.tokens");
  EXPECT_EQ(shard.header(), written);
  EXPECT_EQ(shard.header().token_bytes, 2U);
  EXPECT_EQ(shard.header().vocab_size, 32000U);
  EXPECT_EQ(shard.header().tokenizer_hash, (Hash128{1, 2}));
  EXPECT_EQ(shard.header().bos_id, 1);
  EXPECT_EQ(shard.header().eos_id, std::nullopt);
  EXPECT_EQ(shard.header().shard_index, 2U);
  EXPECT_EQ(shard.header().shard_count, 5U);
  EXPECT_EQ(shard.token_count(), 6U);
  EXPECT_EQ(shard.document_count(), 3U);
  EXPECT_THAT(read_document(shard, 0), ElementsAre(1, 31999, 0));
  EXPECT_THAT(read_document(shard, 1), ElementsAre(7));
  EXPECT_THAT(read_document(shard, 2), ElementsAre(1, 5));
  shard.verify();
}

TEST(TokenShard, layout_is_the_documented_one) {
  test::TempDir dir;
  const fs::path path = write_one(dir, {{258, 3}, {4}});
  const std::string bytes = read_file(path);
  ASSERT_EQ(bytes.size(), 256U + 8 + 3 * 8);
  EXPECT_EQ(bytes.substr(0, 8), "OSDNTOKS");
  const auto u32 = [&](std::size_t at) {
    std::uint32_t value = 0;
    std::memcpy(&value, bytes.data() + at, 4);
    return value;
  };
  const auto u64 = [&](std::size_t at) {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data() + at, 8);
    return value;
  };
  EXPECT_EQ(u32(8), 1U);
  EXPECT_EQ(u32(12), 256U);
  EXPECT_EQ(u32(16), 2U);
  EXPECT_EQ(u32(20), 0U);
  EXPECT_EQ(u64(24), 60000U);
  EXPECT_EQ(u64(32), 2U);
  EXPECT_EQ(u64(40), 1U);
  EXPECT_EQ(u32(48), 0xFFFFFFFFU);
  EXPECT_EQ(u32(52), 0xFFFFFFFFU);
  EXPECT_EQ(u64(56), 3U);
  EXPECT_EQ(u64(64), 2U);
  EXPECT_EQ(u64(72), 256U);
  EXPECT_EQ(u64(80), 264U);
  EXPECT_EQ(u64(88), bytes.size());
  EXPECT_EQ(u32(96), 0U);
  EXPECT_EQ(u32(100), 1U);
  EXPECT_EQ(u64(104), xxh3_64(bytes.data() + 256, bytes.size() - 256));
  EXPECT_EQ(u64(248), xxh3_64(bytes.data(), 248));
  EXPECT_EQ(bytes.substr(256, 8), std::string("\2\1\3\0\4\0\0\0", 8));
  EXPECT_EQ(u64(264), 0U);
  EXPECT_EQ(u64(272), 2U);
  EXPECT_EQ(u64(280), 3U);
}

TEST(TokenShard, D6_width_follows_the_vocabulary) {
  test::TempDir dir;
  EXPECT_EQ(token_bytes_for(65536), 2U);
  EXPECT_EQ(token_bytes_for(65537), 4U);
  const TokenShard narrow_shard(write_one(dir, {{65535}}, 65536));
  EXPECT_EQ(narrow_shard.header().token_bytes, 2U);
  EXPECT_THAT(read_document(narrow_shard, 0), ElementsAre(65535));
  const TokenShard wide(write_one(dir, {{65535, 65536, 200000}}, 200001));
  EXPECT_EQ(wide.header().token_bytes, 4U);
  EXPECT_THAT(read_document(wide, 0), ElementsAre(65535, 65536, 200000));
}

TEST(TokenShard, D6_writer_refuses_what_does_not_fit) {
  test::TempDir dir;
  TokenShardWriter writer(dir / "a.tokens", description(65536));
  EXPECT_THAT(error_of(
                  [&] {
                    writer.add_document(Ids{1, 65536});
                  },
                  ExitCode::kFailure),
              AllOf(HasSubstr("a.tokens"), HasSubstr("id 65536"),
                    HasSubstr("expected 0 to 65535")));
  EXPECT_THAT(
      error_of([&] { writer.add_document(Ids{-1}); }, ExitCode::kFailure),
      HasSubstr("id -1"));
  EXPECT_THAT(error_of([&] { writer.add_document({}); }, ExitCode::kFailure),
              HasSubstr("is empty"));
}

TEST(TokenShard, D6_reader_names_file_offset_and_id) {
  test::TempDir dir;
  for (const std::uint64_t vocab_size : {1000U, 100000U}) {
    const fs::path path = write_one(dir, {{1, 2, 3}, {4, 999, 6}}, vocab_size);
    const std::uint64_t width = vocab_size == 1000 ? 2 : 4;
    const std::uint64_t offset = 256 + 4 * width;
    // 999 becomes 999 + 256 * 253 (or 65536 * 253), past the vocabulary.
    change_byte(path, offset + width / 2, width == 2 ? 0xFF : 0xFF);
    const TokenShard shard(path);
    EXPECT_EQ(read_document(shard, 0), (Ids{1, 2, 3}));
    const std::uint64_t id = width == 2 ? 999 ^ 0xFF00 : 999 ^ 0xFF0000;
    for (const auto& look :
         {std::function<void()>([&] { read_document(shard, 1); }),
          std::function<void()>([&] { shard.verify(); })}) {
      EXPECT_THAT(
          error_of(look),
          AllOf(HasSubstr("one.tokens: offset " + std::to_string(offset)),
                HasSubstr("id " + std::to_string(id) + " (token 4)"),
                HasSubstr(concat("vocabulary of ", vocab_size))));
    }
  }
}

TEST(TokenShard, what_is_no_shard) {
  test::TempDir dir;
  EXPECT_THAT(error_of([&] { TokenShard shard(dir / "gone.tokens"); }),
              HasSubstr("gone.tokens"));
  put_file(dir / "text.tokens", std::string(1000, 'x'));
  EXPECT_THAT(error_of([&] { TokenShard shard(dir / "text.tokens"); }),
              HasSubstr("text.tokens: offset 0: is not a token shard"));
  put_file(dir / "empty.tokens", "");
  EXPECT_THAT(error_of([&] { TokenShard shard(dir / "empty.tokens"); }),
              HasSubstr("empty.tokens: offset 0: is not a token shard"));
}

TEST(TokenShard, later_version_is_called_so) {
  test::TempDir dir;
  const fs::path path = write_one(dir, {{1, 2}});
  change_byte(path, 8, 2);  // 1 becomes 3
  EXPECT_THAT(error_of([&] { TokenShard shard(path); }),
              HasSubstr("offset 8: shard format version 3, this osdn reads up "
                        "to 2"));
}

TEST(TokenShard, cut_short_anywhere) {
  test::TempDir dir;
  const fs::path path = write_one(dir, {{1, 2, 3}, {4, 5}});
  const std::string whole = read_file(path);
  for (std::size_t size = 1; size < whole.size(); ++size) {
    put_file(path, whole.substr(0, size));
    const std::string message = error_of([&] { TokenShard shard(path); });
    EXPECT_THAT(message, HasSubstr("cut short")) << size;
    EXPECT_THAT(message, HasSubstr(concat("offset ", size)));
  }
  put_file(path, whole + "x");
  EXPECT_THAT(error_of([&] { TokenShard shard(path); }),
              HasSubstr("added behind its end"));
}

TEST(TokenShard, every_flipped_bit_is_noticed) {
  test::TempDir dir;
  const fs::path path = write_one(dir, {{1, 2, 3}, {4, 5}});
  const std::uint64_t size = fs::file_size(path);
  for (std::uint64_t offset = 0; offset < size; ++offset) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      change_byte(path, offset, 1U << bit);
      const std::string message = error_of([&] {
        const TokenShard shard(path);
        EXPECT_GE(offset, kShardHeaderBytes) << "opening checks the header";
        shard.verify();
      });
      EXPECT_THAT(message, AllOf(HasSubstr("one.tokens"), HasSubstr("offset")));
      change_byte(path, offset, 1U << bit);
    }
  }
  TokenShard(path).verify();
}

TEST(TokenShard, verifying_many_steps_asks_in_between_and_misses_no_byte) {
  test::TempDir dir;
  for (const std::uint64_t vocab_size : {1000U, 100000U}) {
    // 40 MiB and a few bytes, so that the last step is a short one.
    const std::uint64_t width = token_bytes_for(vocab_size);
    const Ids ids((std::size_t{40} << 20) / width + 3, 5);
    const fs::path path = write_one(dir, {ids, {1, 2, 3}}, vocab_size);
    std::vector<std::uint64_t> asked;
    EXPECT_TRUE(TokenShard(path).verify([&](std::uint64_t done) {
      asked.push_back(done >> 20);
      return true;
    }));
    EXPECT_THAT(asked, ElementsAre(16, 32));
    EXPECT_FALSE(TokenShard(path).verify([](std::uint64_t) { return false; }));
    const ShardHeader header = TokenShard(path).header();
    const std::uint64_t edges[] = {
        256, 256 + (std::uint64_t{1} << 18) - width,
        256 + (std::uint64_t{1} << 18), 256 + (std::uint64_t{16} << 20),
        header.tokens_offset + header.token_count * width - 2};
    for (const std::uint64_t offset : edges) {
      change_byte(path, offset, 1);  // 5 becomes 4, or 261: valid ids both
      EXPECT_THAT(error_of([&] { TokenShard(path).verify(); }),
                  AllOf(HasSubstr("one.tokens"), HasSubstr("are damaged")))
          << offset;
      change_byte(path, offset, 1);
    }
    // The last id of a step, past the vocabulary.
    const std::uint64_t last = 256 + (std::uint64_t{1} << 18) - width;
    change_byte(path, last + width / 2, 0xFF);
    EXPECT_THAT(error_of([&] { TokenShard(path).verify(); }),
                HasSubstr(concat("offset ", last, ": id ")));
  }
}

TEST(TokenShard, zero_tokens_are_refused) {
  test::TempDir dir;
  TokenShardWriter writer(dir / "a.tokens", description());
  EXPECT_THAT(error_of([&] { writer.finish(); }, ExitCode::kFailure),
              HasSubstr("no document"));
  ShardHeader header = description();
  set_layout(header);
  const HeaderBytes bytes = to_bytes(header);
  std::string content(reinterpret_cast<const char*>(bytes.data()),
                      bytes.size());
  content += std::string(8, '\0');
  put_file(dir / "zero.tokens", content);
  EXPECT_THAT(error_of([&] { TokenShard shard(dir / "zero.tokens"); }),
              HasSubstr("holds no tokens"));
}

TEST(TokenShard, sizes_that_do_not_fit_the_file_are_refused) {
  test::TempDir dir;
  const fs::path path = write_one(dir, {{1, 2, 3}, {4, 5}});
  const ShardHeader good = TokenShard(path).header();
  const auto refused = [&](ShardHeader header) {
    rewrite_header(path, header);
    return error_of([&] { TokenShard shard(path); });
  };
  ShardHeader bad = good;
  bad.token_count = std::uint64_t{1} << 63;  // times 2 overflows to 0
  EXPECT_THAT(refused(bad), HasSubstr("do not fit"));
  bad = good;
  bad.document_count = (std::uint64_t{1} << 61) + 2;
  EXPECT_THAT(refused(bad), HasSubstr("do not fit"));
  bad = good;
  bad.documents_offset = 8;
  EXPECT_THAT(refused(bad), HasSubstr("do not fit"));
  bad = good;
  bad.token_bytes = 3;
  EXPECT_THAT(refused(bad), HasSubstr("expected 2 or 4"));
  bad = good;
  bad.vocab_size = 70000;
  EXPECT_THAT(refused(bad), HasSubstr("cannot hold"));
  rewrite_header(path, good);
  TokenShard(path).verify();
}

TEST(TokenShard, damaged_document_table_is_refused_on_opening) {
  test::TempDir dir;
  const fs::path path = write_one(dir, {{1, 2, 3}, {4, 5}, {6}});
  const ShardHeader header = TokenShard(path).header();
  change_byte(path, header.documents_offset + 8, 0x04);  // 3 becomes 7
  EXPECT_THAT(error_of([&] { TokenShard shard(path); }),
              HasSubstr(concat("offset ", header.documents_offset + 8,
                               ": the document table is damaged")));
}

TEST(TokenShard, reading_past_the_end_is_an_error) {
  test::TempDir dir;
  const TokenShard shard(write_one(dir, {{1, 2, 3}}));
  Ids ids(2);
  EXPECT_THROW(shard.read(2, ids), Error);
  EXPECT_THROW(shard.read(~std::uint64_t{0}, ids), Error);
}

TEST(TokenShard, unfinished_writer_leaves_nothing) {
  test::TempDir dir;
  {
    TokenShardWriter writer(dir / "a.tokens", description());
    writer.add_document(Ids{1});
  }
  EXPECT_TRUE(fs::is_empty(dir.path()));
}

// 2.4 GB of zeros that take no room on disk, with real tokens on both sides of
// 2 GiB and of 2^31 tokens' worth of bytes.
TEST(TokenShard, D5_beyond_2_GiB) {
  test::TempDir dir;
  const fs::path path = dir / "large.tokens";
  constexpr std::uint64_t kTokens = 2'200'000'000;
  constexpr std::uint64_t kFirstDocument = 2'150'000'000;
  ShardHeader header = description();
  header.token_bytes = 2;
  header.token_count = kTokens;
  header.document_count = 2;
  set_layout(header);
  {
    File file = File::create(path);
    file.truncate(header.file_bytes);
    const HeaderBytes bytes = to_bytes(header);
    file.write_at(0, bytes.data(), bytes.size());
    const std::uint16_t tokens[2] = {11, 22};
    file.write_at(header.tokens_offset + 2 * (kFirstDocument - 1), tokens, 4);
    const std::uint16_t last = 33;
    file.write_at(header.tokens_offset + 2 * (kTokens - 1), &last, 2);
    const std::uint64_t table[3] = {0, kFirstDocument, kTokens};
    file.write_at(header.documents_offset, table, sizeof(table));
  }
  const TokenShard shard(path);
  EXPECT_EQ(shard.token_count(), kTokens);
  EXPECT_EQ(shard.document_length(0), kFirstDocument);
  Ids ids(2);
  shard.read(kFirstDocument - 1, ids);
  EXPECT_THAT(ids, ElementsAre(11, 22));
  shard.read(kTokens - 2, ids);
  EXPECT_THAT(ids, ElementsAre(0, 33));

  const TokenDataset dataset({path, path});
  EXPECT_EQ(dataset.token_count(), 2 * kTokens);
  dataset.read(3, kTokens - kFirstDocument - 1, std::span(ids).first(1));
  EXPECT_EQ(ids[0], 33);

  // Rows on both sides of the same marks, and the number of samples.
  for (const Packing packing : {Packing::kDocuments, Packing::kStream}) {
    const EpochRows rows(dataset, {.packing = packing},
                         DocumentOrder(4, false, 0, 0));
    const std::uint64_t last = rows.row_count() - 1;
    MicroBatch batch;
    append_row(dataset, rows.segments(last), false, batch);
    EXPECT_EQ(batch.tokens.back(), 33);
    std::uint64_t tokens = 0;
    for (std::uint64_t row = 0; row <= last; ++row) {
      tokens += static_cast<std::uint64_t>(count_tokens(rows.segments(row)));
    }
    EXPECT_EQ(tokens, 2 * kTokens);
  }
}

}  // namespace
}  // namespace osdn::data
