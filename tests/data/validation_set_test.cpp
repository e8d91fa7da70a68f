#include "osdn/data/validation_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data_fixture.h"
#include "osdn/core/random.h"
#include "packing_reference.h"

namespace osdn::data {
namespace {

using ::testing::HasSubstr;

struct Totals {
  std::vector<std::int32_t> tokens;
  std::vector<std::int64_t> labels;
  std::int64_t valid_labels = 0;
  bool operator==(const Totals&) const = default;
};

// All ranks' micro-batches in the order in which the rows were dealt.
Totals totals(const std::shared_ptr<const TokenDataset>& dataset,
              ValidationOptions options) {
  Totals all;
  std::vector<std::unique_ptr<ValidationSet>> ranks;
  for (options.rank = 0; options.rank < options.world_size; ++options.rank) {
    ranks.push_back(std::make_unique<ValidationSet>(dataset, options));
    EXPECT_EQ(ranks.back()->size(), ranks.front()->size());
  }
  for (std::int64_t i = 0; i < ranks[0]->size(); ++i) {
    for (const auto& rank : ranks) {
      const MicroBatch batch = rank->micro_batch(i);
      EXPECT_LE(batch.rows, options.micro_batch);
      EXPECT_EQ(batch.cu_seqlens.back(),
                static_cast<std::int64_t>(batch.tokens.size()));
      all.tokens.insert(all.tokens.end(), batch.tokens.begin(),
                        batch.tokens.end());
      all.labels.insert(all.labels.end(), batch.labels.begin(),
                        batch.labels.end());
      all.valid_labels += batch.valid_labels;
    }
  }
  EXPECT_EQ(ranks[0]->token_count(),
            static_cast<std::int64_t>(all.tokens.size()));
  return all;
}

TEST(ValidationSet, L5_tokens_and_labels_do_not_depend_on_the_layout) {
  test::TempDir dir;
  Xoshiro256 random(1);
  std::vector<std::uint64_t> lengths(31);
  for (std::uint64_t& length : lengths) {
    length = 1 + random.below(30);
  }
  const auto dataset = make_dataset(dir, lengths, 2);
  for (const Packing packing : {Packing::kDocuments, Packing::kStream}) {
    for (const std::int64_t max_tokens : {0, 1, 19, 20, 21, 100, 100000}) {
      ValidationOptions options;
      options.packing = {
          .packing = packing, .context_length = 8, .sequence_length = 20};
      options.max_tokens = max_tokens;
      const Totals one = totals(dataset, options);
      const auto all = static_cast<std::int64_t>(dataset->token_count());
      ASSERT_EQ(static_cast<std::int64_t>(one.tokens.size()),
                max_tokens == 0 ? all : std::min(max_tokens, all));
      for (std::size_t i = 0; i < one.tokens.size(); ++i) {
        ASSERT_EQ(one.tokens[i], static_cast<std::int32_t>(i)) << "in order";
      }
      EXPECT_EQ(one.valid_labels,
                std::count_if(one.labels.begin(), one.labels.end(),
                              [](auto label) { return label != kNoLabel; }));
      for (const std::int64_t micro_batch : {2, 3, 50}) {
        for (const std::int64_t world_size : {1, 2, 3}) {
          options.micro_batch = micro_batch;
          options.world_size = world_size;
          EXPECT_EQ(totals(dataset, options), one);
        }
      }
    }
  }
}

TEST(ValidationSet, a_row_cut_inside_a_document_keeps_its_true_label) {
  test::TempDir dir;
  const auto dataset = make_dataset(dir, {10});
  ValidationOptions options;
  options.max_tokens = 4;
  const MicroBatch batch = ValidationSet(dataset, options).micro_batch(0);
  EXPECT_THAT(batch.tokens, ::testing::ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(batch.labels, ::testing::ElementsAre(1, 2, 3, 4));
}

TEST(ValidationSet, L4_asking_twice_gives_the_same) {
  test::TempDir dir;
  const auto dataset = make_dataset(dir, {10, 20, 30});
  ValidationOptions options;
  options.packing = {.context_length = 8, .sequence_length = 20};
  const ValidationSet set(dataset, options);
  for (std::int64_t i = set.size() - 1; i >= 0; --i) {
    expect_equal(set.micro_batch(i), set.micro_batch(i));
  }
}

TEST(ValidationSet, wrong_options_are_refused) {
  test::TempDir dir;
  const auto dataset = make_dataset(dir, {10});
  ValidationOptions options;
  options.micro_batch = 0;
  EXPECT_THAT(
      error_of([&] { ValidationSet set(dataset, options); }, ExitCode::kUsage),
      HasSubstr("micro_batch 0"));
  const ValidationSet set(dataset, {});
  EXPECT_THROW(set.micro_batch(1), Error);
  EXPECT_THROW(set.micro_batch(-1), Error);
}

}  // namespace
}  // namespace osdn::data
