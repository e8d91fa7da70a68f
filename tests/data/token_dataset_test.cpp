#include "osdn/data/token_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data_fixture.h"

namespace osdn::data {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(TokenDataset, documents_are_numbered_through_all_shards) {
  test::TempDir dir;
  const auto dataset = make_dataset(dir, {3, 1, 2, 5, 1}, 3);
  EXPECT_EQ(dataset->shards().size(), 3U);
  EXPECT_EQ(dataset->document_count(), 5U);
  EXPECT_EQ(dataset->token_count(), 12U);
  const std::vector<std::uint64_t> lengths = {3, 1, 2, 5, 1};
  std::int32_t next = 0;
  for (std::uint64_t d = 0; d < 5; ++d) {
    ASSERT_EQ(dataset->document_length(d), lengths[d]);
    for (std::uint64_t i = 0; i < lengths[d]; ++i) {
      Ids id(1);
      dataset->read(d, i, id);
      EXPECT_EQ(id[0], next++);
    }
  }
}

TEST(TokenDataset, folder_must_hold_one_whole_set) {
  test::TempDir dir;
  const fs::path folder =
      write_shards(dir / "set", counting_documents({1, 2, 3}), 3);
  fs::rename(folder / "s2.tokens", dir / "away");
  EXPECT_THAT(error_of([&] { TokenDataset dataset({folder}); }),
              HasSubstr("shard 3 of 3 is missing"));
  fs::rename(dir / "away", folder / "s2.tokens");
  fs::remove(folder / "s1.tokens");
  EXPECT_THAT(
      error_of([&] { TokenDataset dataset({folder}); }),
      AllOf(HasSubstr("s2.tokens"), HasSubstr("expected shard 2 of 3")));
  const TokenDataset some({folder / "s2.tokens", folder / "s0.tokens"});
  EXPECT_EQ(some.token_count(), 4U);
}

TEST(TokenDataset, inputs_that_are_not_there) {
  test::TempDir dir;
  EXPECT_THAT(error_of([&] { TokenDataset dataset({dir.path()}); }),
              HasSubstr("no .tokens file in this folder"));
  EXPECT_THAT(error_of([&] { TokenDataset dataset({dir / "gone"}); }),
              HasSubstr("gone"));
  fs::create_symlink(dir / "loop.tokens", dir / "loop.tokens");
  for (const fs::path& input : {dir / "loop.tokens", dir.path()}) {
    EXPECT_THAT(error_of([&] { TokenDataset dataset({input}); }),
                AllOf(HasSubstr("loop.tokens"), HasSubstr("symbolic links")));
  }
  EXPECT_THAT(error_of([&] { TokenDataset dataset({}); }, ExitCode::kUsage),
              HasSubstr("no token shards"));
}

TEST(TokenDataset, other_tokenizer_is_refused) {
  test::TempDir dir;
  const fs::path folder = write_shards(dir / "a", counting_documents({3}));
  TokenDataset same({folder}, {.tokenizer_hash = Hash128{1, 2}});
  EXPECT_THAT(
      error_of([&] {
        TokenDataset dataset({folder}, {.tokenizer_hash = Hash128{1, 3}});
      }),
      AllOf(HasSubstr("s0.tokens: offset 32"),
            HasSubstr("00000000000000010000000000000002"),
            HasSubstr("00000000000000010000000000000003")));
  ShardHeader header = description();
  header.tokenizer_hash = {9, 9};
  const fs::path other =
      write_shards(dir / "b", counting_documents({3}), 1, header);
  EXPECT_THAT(error_of([&] {
                TokenDataset dataset({folder, other});
              }),
              HasSubstr("use shards of one tokenizer"));
}

TEST(TokenDataset, D6_vocabulary_larger_than_the_model_is_refused) {
  test::TempDir dir;
  const fs::path folder = write_shards(dir / "a", counting_documents({3}));
  TokenDataset fits({folder}, {.vocab_size = 60000});
  EXPECT_THAT(
      error_of([&] { TokenDataset dataset({folder}, {.vocab_size = 59999}); }),
      AllOf(HasSubstr("s0.tokens"), HasSubstr("60000"), HasSubstr("59999")));
}

TEST(TokenDataset, content_hash_names_the_content) {
  test::TempDir dir;
  const auto hash = [&](std::string_view name,
                        const std::vector<Ids>& documents, std::size_t shards) {
    return TokenDataset({write_shards(dir / name, documents, shards)})
        .content_hash();
  };
  const std::uint64_t first = hash("a", {{1, 2}, {3}}, 1);
  EXPECT_EQ(hash("b", {{1, 2}, {3}}, 1), first);
  EXPECT_NE(hash("c", {{1}, {2, 3}}, 1), first);
  EXPECT_NE(hash("d", {{1, 2}, {4}}, 1), first);
}

}  // namespace
}  // namespace osdn::data
