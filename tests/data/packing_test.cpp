#include "osdn/data/packing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data_fixture.h"
#include "osdn/core/random.h"
#include "osdn/data/micro_batch.h"
#include "packing_reference.h"

namespace osdn::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kNone = kNoLabel;

MicroBatch pack(const TokenDataset& dataset, const PackingOptions& options,
                std::uint64_t row) {
  const EpochRows rows(dataset, options,
                       DocumentOrder(dataset.document_count(), false, 0, 0));
  MicroBatch batch;
  append_row(dataset, rows.segments(row), options.mask_document_end, batch);
  return batch;
}

TEST(Packing, documents_fill_rows_greedily_with_whole_pieces) {
  test::TempDir dir;
  // Documents 0..2, 3..9, 10..11 with pieces of 4: 3 | 4 3 | 2, rows of 7.
  const auto dataset = make_dataset(dir, {3, 7, 2});
  const PackingOptions options = {.packing = Packing::kDocuments,
                                  .context_length = 4,
                                  .sequence_length = 7};
  const MicroBatch first = pack(*dataset, options, 0);
  EXPECT_THAT(first.tokens, ElementsAre(0, 1, 2, 3, 4, 5, 6));
  // The cut behind 6 keeps its true next token.
  EXPECT_THAT(first.labels, ElementsAre(1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(first.cu_seqlens, ElementsAre(0, 3, 7));
  EXPECT_EQ(first.valid_labels, 7);
  const MicroBatch second = pack(*dataset, options, 1);
  EXPECT_THAT(second.tokens, ElementsAre(7, 8, 9, 10, 11));
  EXPECT_THAT(second.labels, ElementsAre(8, 9, 10, 11, kNone));
  EXPECT_THAT(second.cu_seqlens, ElementsAre(0, 3, 5));
  EXPECT_EQ(second.valid_labels, 4);
}

TEST(Packing, stream_cuts_at_the_row_length_exactly) {
  test::TempDir dir;
  const auto dataset = make_dataset(dir, {3, 7, 2});
  const PackingOptions options = {
      .packing = Packing::kStream, .context_length = 4, .sequence_length = 5};
  const MicroBatch first = pack(*dataset, options, 0);
  EXPECT_THAT(first.tokens, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(first.labels, ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(first.cu_seqlens, ElementsAre(0, 3, 5));
  const MicroBatch second = pack(*dataset, options, 1);
  EXPECT_THAT(second.tokens, ElementsAre(5, 6, 7, 8, 9));
  EXPECT_THAT(second.labels, ElementsAre(6, 7, 8, 9, kNone));
  EXPECT_THAT(second.cu_seqlens, ElementsAre(0, 2, 5));
  const MicroBatch last = pack(*dataset, options, 2);
  EXPECT_THAT(last.tokens, ElementsAre(10, 11));
  EXPECT_THAT(last.labels, ElementsAre(11, kNone));
  EXPECT_THAT(last.cu_seqlens, ElementsAre(0, 2));
}

TEST(Packing, L3_masked_document_ends_are_in_no_count) {
  test::TempDir dir;
  const auto dataset = make_dataset(dir, {3, 1, 1, 2});
  const PackingOptions options = {.packing = Packing::kStream,
                                  .context_length = 4,
                                  .sequence_length = 4,
                                  .mask_document_end = true};
  const MicroBatch first = pack(*dataset, options, 0);
  EXPECT_THAT(first.labels, ElementsAre(1, 2, kNone, kNone));
  EXPECT_EQ(first.valid_labels, 2);
  const MicroBatch second = pack(*dataset, options, 1);
  EXPECT_THAT(second.labels, ElementsAre(kNone, 6, kNone));
  EXPECT_EQ(second.valid_labels, 1);
}

TEST(Packing, L3_a_row_without_any_label) {
  test::TempDir dir;
  const auto dataset = make_dataset(dir, {1, 1});
  const MicroBatch batch = pack(
      *dataset,
      {.context_length = 1, .sequence_length = 2, .mask_document_end = true},
      0);
  EXPECT_THAT(batch.labels, ElementsAre(kNone, kNone));
  EXPECT_EQ(batch.valid_labels, 0);
}

TEST(Packing, V6_boundaries_come_from_the_shard_and_never_from_ids) {
  test::TempDir dir;
  // The id 1 stands for BOS: in the middle of the first document, and missing
  // at the start of the second one.
  ShardHeader header = description();
  header.bos_id = 1;
  const TokenDataset dataset(
      {write_shards(dir / "v6", {{1, 5, 1, 6, 1}, {7, 8}}, 1, header)});
  const MicroBatch batch = pack(dataset, {}, 0);
  EXPECT_THAT(batch.cu_seqlens, ElementsAre(0, 5, 7));
  EXPECT_THAT(batch.labels, ElementsAre(5, 1, 6, 1, 7, 8, kNone));
}

TEST(Packing, options_that_do_not_go_together_are_refused) {
  test::TempDir dir;
  const auto dataset = make_dataset(dir, {3});
  EXPECT_THAT(error_of(
                  [&] {
                    pack(*dataset, {.context_length = 8, .sequence_length = 7},
                         0);
                  },
                  ExitCode::kUsage),
              HasSubstr("context_length 8 with sequence_length 7"));
  EXPECT_THAT(error_of([&] { pack(*dataset, {.context_length = 0}, 0); },
                       ExitCode::kUsage),
              HasSubstr("context_length 0"));
  EXPECT_THAT(error_of([] { packing_from_name("padded"); }, ExitCode::kUsage),
              HasSubstr("use documents or stream"));
}

// Many random shapes against the plain reference, which lists every token of
// the epoch once: equal rows mean that each token is served exactly once.
TEST(Packing, every_token_once_in_rows_as_the_reference_packs_them) {
  test::TempDir dir;
  Xoshiro256 random(5);
  for (int round = 0; round < 50; ++round) {
    std::vector<std::uint64_t> lengths(1 + random.below(30));
    const std::uint64_t longest = 1 + random.below(40);
    for (std::uint64_t& length : lengths) {
      length = 1 + random.below(longest);
    }
    const auto dataset = make_dataset(
        dir, lengths,
        1 + random.below(std::min<std::uint64_t>(3, lengths.size())));
    const std::vector<Ids> documents = counting_documents(lengths);
    for (int shape = 0; shape < 8; ++shape) {
      PackingOptions options;
      options.packing = shape % 2 == 0 ? Packing::kDocuments : Packing::kStream;
      options.context_length = static_cast<std::int64_t>(1 + random.below(20));
      options.sequence_length =
          options.context_length + static_cast<std::int64_t>(random.below(30));
      options.mask_document_end = random.below(2) == 0;
      const DocumentOrder order(documents.size(), random.below(4) > 0,
                                random.next(), random.below(5));
      std::vector<Ids> ordered;
      for (std::uint64_t place = 0; place < order.count(); ++place) {
        ordered.push_back(documents[order(place)]);
      }
      const std::vector<PlainRow> expected = plain_rows(ordered, options);
      const EpochRows rows(*dataset, options, order);
      ASSERT_EQ(rows.row_count(), expected.size());
      ASSERT_EQ(count_rows(*dataset, options, order), expected.size());
      for (std::uint64_t row = 0; row < rows.row_count(); ++row) {
        const std::vector<Segment> segments = rows.segments(row);
        MicroBatch batch;
        append_row(*dataset, segments, options.mask_document_end, batch);
        expect_equal(batch, plain_batch({expected[row]}));
        ASSERT_EQ(count_tokens(segments),
                  static_cast<std::int64_t>(expected[row].size()));
        ASSERT_LE(count_tokens(segments), options.sequence_length);
        for (const Segment& segment : segments) {
          ASSERT_LE(segment.length,
                    static_cast<std::uint64_t>(options.context_length));
        }
        if (HasFailure()) {
          return;
        }
      }
    }
  }
}

}  // namespace
}  // namespace osdn::data
