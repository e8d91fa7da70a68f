#include "osdn/data/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

#include "data_fixture.h"
#include "osdn/core/random.h"
#include "packing_reference.h"

namespace osdn::data {
namespace {

using ::testing::HasSubstr;
using Data = std::shared_ptr<const TokenDataset>;

std::vector<StepBatch> run(const Data& dataset, const LoaderOptions& options,
                           std::int64_t first_sample, std::size_t steps) {
  Loader loader(dataset, options, first_sample);
  std::vector<StepBatch> batches;
  while (batches.size() < steps) {
    std::optional<StepBatch> step = loader.next_step();
    if (!step) {
      break;
    }
    batches.push_back(std::move(*step));
  }
  return batches;
}

void expect_same_step(const StepBatch& got, const StepBatch& expected) {
  EXPECT_EQ(got.first_sample, expected.first_sample);
  EXPECT_EQ(got.next_sample, expected.next_sample);
  EXPECT_EQ(got.first_epoch, expected.first_epoch);
  EXPECT_EQ(got.last_epoch, expected.last_epoch);
  EXPECT_EQ(got.valid_labels, expected.valid_labels);
  EXPECT_EQ(got.tokens, expected.tokens);
  ASSERT_EQ(got.micro_batches.size(), expected.micro_batches.size());
  for (std::size_t m = 0; m < got.micro_batches.size(); ++m) {
    expect_equal(got.micro_batches[m], expected.micro_batches[m]);
  }
}

std::vector<std::uint64_t> some_lengths(std::size_t count) {
  Xoshiro256 random(11);
  std::vector<std::uint64_t> lengths(count);
  for (std::uint64_t& length : lengths) {
    length = 1 + random.below(25);
  }
  return lengths;
}

LoaderOptions small_options(Packing packing) {
  LoaderOptions options;
  options.packing = {.packing = packing,
                     .context_length = 8,
                     .sequence_length = 20,
                     .mask_document_end = false};
  options.global_batch = 4;
  options.micro_batch = 2;
  return options;
}

constexpr Packing kPackings[] = {Packing::kDocuments, Packing::kStream};

// All rows of the first epochs, from the plain reference.
std::vector<PlainRow> plain_epochs(const std::vector<Ids>& documents,
                                   const LoaderOptions& options,
                                   std::uint64_t epochs) {
  std::vector<PlainRow> rows;
  for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
    const DocumentOrder order(documents.size(), options.order.shuffle,
                              options.order.seed, epoch);
    std::vector<Ids> ordered;
    for (std::uint64_t place = 0; place < order.count(); ++place) {
      ordered.push_back(documents[order(place)]);
    }
    for (PlainRow& row : plain_rows(ordered, options.packing)) {
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

TEST(Loader, D1_resume_in_the_second_of_three_shards_is_the_same_stream) {
  test::TempDir dir;
  const Data dataset = make_dataset(dir, some_lengths(60), 3);
  for (const Packing packing : kPackings) {
    for (const bool shuffle : {false, true}) {
      LoaderOptions options = small_options(packing);
      options.order.shuffle = shuffle;
      const auto whole = run(dataset, options, 0, 40);
      ASSERT_GT(whole.back().last_epoch, 1) << "the run must turn epochs";
      // At every step, so inside each shard and around each turn of an epoch.
      for (std::size_t stop = 0; stop < whole.size(); ++stop) {
        const auto rest = run(dataset, options, whole[stop].first_sample,
                              whole.size() - stop);
        ASSERT_EQ(rest.size(), whole.size() - stop);
        for (std::size_t i = 0; i < rest.size(); ++i) {
          expect_same_step(rest[i], whole[stop + i]);
        }
      }
    }
  }
}

TEST(Loader, D2_each_epoch_comes_from_the_original_order_and_loses_nothing) {
  test::TempDir dir;
  const std::vector<std::uint64_t> lengths = some_lengths(24);
  const Data dataset = make_dataset(dir, lengths, 2);
  constexpr std::uint64_t kEpochs = 5;
  constexpr std::int64_t kRows = 7;
  for (const Packing packing : kPackings) {
    LoaderOptions options = small_options(packing);
    options.epochs = kEpochs;
    options.global_batch = kRows;
    options.micro_batch = kRows;
    const std::vector<PlainRow> expected =
        plain_epochs(counting_documents(lengths), options, kEpochs);
    const auto steps = run(dataset, options, 0, 1000);
    std::size_t row = 0;
    bool turned_inside_a_step = false;
    for (const StepBatch& step : steps) {
      EXPECT_EQ(step.first_sample, static_cast<std::int64_t>(row));
      const std::size_t end = std::min(row + kRows, expected.size());
      ASSERT_EQ(step.micro_batches.size(), 1U);
      expect_equal(
          step.micro_batches[0],
          plain_batch({expected.begin() + static_cast<std::ptrdiff_t>(row),
                       expected.begin() + static_cast<std::ptrdiff_t>(end)}));
      turned_inside_a_step |= step.first_epoch != step.last_epoch;
      row = end;
    }
    EXPECT_EQ(row, expected.size());
    EXPECT_TRUE(turned_inside_a_step);
    // Each epoch holds each token once.
    std::map<std::int32_t, int> times;
    for (const StepBatch& step : steps) {
      for (const std::int32_t id : step.micro_batches[0].tokens) {
        ++times[id];
      }
    }
    EXPECT_EQ(times.size(), dataset->token_count());
    for (const auto& [id, count] : times) {
      EXPECT_EQ(count, static_cast<int>(kEpochs)) << id;
    }
  }
}

TEST(Loader, D2_stop_just_before_at_and_after_the_turn) {
  test::TempDir dir;
  const Data dataset = make_dataset(dir, some_lengths(30), 2);
  for (const Packing packing : kPackings) {
    LoaderOptions options = small_options(packing);
    options.global_batch = 1;
    options.micro_batch = 1;
    SampleIndex index(*dataset, options.packing, options.order);
    for (const std::uint64_t epoch : {1U, 2U, 7U}) {
      const auto turn = static_cast<std::int64_t>(index.first_sample_of(epoch));
      const auto whole =
          run(dataset, options, 0, static_cast<std::size_t>(turn + 3));
      for (std::int64_t at = turn - 1; at <= turn + 1; ++at) {
        const auto rest = run(dataset, options, at, 1);
        expect_same_step(rest[0], whole[static_cast<std::size_t>(at)]);
        EXPECT_EQ(rest[0].first_epoch,
                  static_cast<std::int64_t>(at < turn ? epoch - 1 : epoch));
      }
    }
  }
}

TEST(Loader, D3_last_full_group_is_served_and_nothing_is_dropped) {
  test::TempDir dir;
  // 8 documents of one row each, exactly two steps of 2 ranks * 2 rows.
  const Data exact = make_dataset(dir, std::vector<std::uint64_t>(8, 20));
  LoaderOptions options = small_options(Packing::kStream);
  options.epochs = 1;
  options.world_size = 2;
  const auto steps = run(exact, options, 0, 100);
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[1].next_sample, 8);
  EXPECT_EQ(steps[1].tokens, 80);

  // One token more is one row more.
  std::vector<std::uint64_t> lengths(8, 20);
  lengths.back() = 21;
  const auto more = run(make_dataset(dir, lengths), options, 0, 100);
  ASSERT_EQ(more.size(), 3U);
  EXPECT_EQ(more[2].next_sample, 9);
  EXPECT_EQ(more[2].tokens, 1);

  // A set shorter than one step.
  const auto less = run(make_dataset(dir, {5}), options, 0, 100);
  ASSERT_EQ(less.size(), 1U);
  EXPECT_EQ(less[0].tokens, 5);
  EXPECT_EQ(less[0].next_sample, 1);
}

TEST(Loader, D4_union_over_ranks_is_each_sample_exactly_once) {
  test::TempDir dir;
  Xoshiro256 random(3);
  const std::vector<std::uint64_t> lengths = some_lengths(80);
  const Data dataset = make_dataset(dir, lengths, 3);
  for (int round = 0; round < 60; ++round) {
    LoaderOptions options = small_options(kPackings[random.below(2)]);
    options.packing.context_length =
        static_cast<std::int64_t>(1 + random.below(20));
    options.packing.mask_document_end = random.below(2) == 0;
    options.order.seed = random.next();
    options.micro_batch = static_cast<std::int64_t>(1 + random.below(3));
    options.world_size = static_cast<std::int64_t>(1 + random.below(4));
    options.global_batch = options.micro_batch * options.world_size *
                           static_cast<std::int64_t>(1 + random.below(3));
    options.epochs = 1 + static_cast<std::int64_t>(random.below(2));
    const std::vector<PlainRow> expected =
        plain_epochs(counting_documents(lengths), options,
                     static_cast<std::uint64_t>(options.epochs));
    std::vector<std::vector<StepBatch>> ranks;
    for (std::int64_t rank = 0; rank < options.world_size; ++rank) {
      options.rank = rank;
      ranks.push_back(run(dataset, options, 0, 1000));
      ASSERT_EQ(ranks.back().size(), ranks.front().size());
    }
    std::size_t row = 0;
    for (std::size_t s = 0; s < ranks[0].size(); ++s) {
      std::int64_t valid = 0;
      std::int64_t tokens = 0;
      const std::size_t step_begin = row;
      for (std::size_t m = 0; m < ranks[0][s].micro_batches.size(); ++m) {
        for (const auto& steps : ranks) {
          ASSERT_EQ(steps[s].micro_batches.size(),
                    ranks[0][s].micro_batches.size());
          const MicroBatch& micro = steps[s].micro_batches[m];
          ASSERT_LE(micro.rows, options.micro_batch);
          const std::size_t end = row + static_cast<std::size_t>(micro.rows);
          ASSERT_LE(end, expected.size());
          expect_equal(
              micro,
              plain_batch(
                  {expected.begin() + static_cast<std::ptrdiff_t>(row),
                   expected.begin() + static_cast<std::ptrdiff_t>(end)}));
          valid += micro.valid_labels;
          tokens += static_cast<std::int64_t>(micro.tokens.size());
          row = end;
        }
      }
      for (const auto& steps : ranks) {
        EXPECT_EQ(steps[s].valid_labels, valid);
        EXPECT_EQ(steps[s].tokens, tokens);
        EXPECT_EQ(steps[s].first_sample, static_cast<std::int64_t>(step_begin));
        EXPECT_EQ(steps[s].next_sample, static_cast<std::int64_t>(row));
      }
    }
    ASSERT_EQ(row, expected.size());
    ASSERT_FALSE(HasFailure());
  }
}

TEST(Loader, D7_data_end_before_the_last_step) {
  test::TempDir dir;
  const Data dataset = make_dataset(dir, some_lengths(10));
  for (const std::int64_t prefetch : {0, 2}) {
    LoaderOptions options = small_options(Packing::kDocuments);
    options.prefetch_steps = prefetch;
    options.epochs = 2;
    Loader loader(dataset, options, 0);
    std::int64_t tokens = 0;
    std::int64_t next = 0;
    while (const auto step = loader.next_step()) {
      tokens += step->tokens;
      next = step->next_sample;
    }
    EXPECT_EQ(tokens, 2 * static_cast<std::int64_t>(dataset->token_count()));
    EXPECT_EQ(loader.next_step(), std::nullopt);
    // A run resumed at the end has no step either.
    EXPECT_TRUE(run(dataset, options, next, 1).empty());
    EXPECT_TRUE(run(dataset, options, next + 100, 1).empty());
    // Without a limit there is always another step.
    options.epochs = 0;
    EXPECT_EQ(run(dataset, options, next, 50).size(), 50U);
  }
}

TEST(Loader, D8_resume_goes_on_at_the_first_untrained_sample) {
  test::TempDir dir;
  const Data dataset = make_dataset(dir, some_lengths(40), 2);
  LoaderOptions options = small_options(Packing::kDocuments);
  options.prefetch_steps = 0;
  const auto whole = run(dataset, options, 0, 30);
  for (const std::int64_t depth : {0, 1, 2, 7}) {
    options.prefetch_steps = depth;
    // Stop after each step in turn, while the old loader has read ahead.
    std::int64_t place = 0;
    for (std::size_t s = 0; s < whole.size(); ++s) {
      Loader loader(dataset, options, place);
      const auto step = loader.next_step();
      ASSERT_TRUE(step);
      expect_same_step(*step, whole[s]);
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      place = step->next_sample;
    }
  }
}

TEST(Loader, errors_of_the_prefetch_thread_reach_the_caller_in_their_turn) {
  test::TempDir dir;
  const std::vector<Ids> documents = counting_documents({20, 20, 20, 20});
  const auto folder = write_shards(dir / "bad", documents);
  {
    File file = File::open_update(folder / "s0.tokens");
    const std::uint16_t id = 65000;  // the vocabulary has 60,000
    file.write_at(kShardHeaderBytes + 2 * 65, &id, 2);
  }
  const auto dataset = std::make_shared<const TokenDataset>(
      std::vector<std::filesystem::path>{folder});
  for (const std::int64_t depth : {0, 1, 4}) {
    LoaderOptions options = small_options(Packing::kStream);
    options.order.shuffle = false;
    options.global_batch = 1;
    options.micro_batch = 1;
    options.prefetch_steps = depth;
    Loader loader(dataset, options, 0);
    for (int step = 0; step < 3; ++step) {
      EXPECT_TRUE(loader.next_step());
    }
    for (int again = 0; again < 2; ++again) {
      EXPECT_THAT(error_of([&] { loader.next_step(); }),
                  HasSubstr("s0.tokens: offset 386: id 65000"));
    }
  }
}

TEST(Loader, can_be_dropped_at_any_moment) {
  test::TempDir dir;
  const Data dataset = make_dataset(dir, some_lengths(40), 2);
  LoaderOptions options = small_options(Packing::kDocuments);
  for (int i = 0; i < 200; ++i) {
    options.prefetch_steps = 1 + i % 3;
    Loader loader(dataset, options, i);
    for (int step = 0; step < i % 4; ++step) {
      loader.next_step();
    }
  }
}

TEST(Loader, options_that_do_not_go_together_are_refused) {
  test::TempDir dir;
  const Data dataset = make_dataset(dir, {5});
  const auto refused = [&](const std::function<void(LoaderOptions&)>& change,
                           std::int64_t first_sample = 0) {
    LoaderOptions options = small_options(Packing::kDocuments);
    change(options);
    return error_of([&] { Loader loader(dataset, options, first_sample); },
                    ExitCode::kUsage);
  };
  EXPECT_THAT(refused([](LoaderOptions& o) { o.global_batch = 3; }),
              HasSubstr("use 2, 4, 6"));
  EXPECT_THAT(refused([](LoaderOptions& o) { o.world_size = 3; }),
              HasSubstr("use 6, 12, 18"));
  EXPECT_THAT(refused([](LoaderOptions& o) { o.rank = 1; }),
              HasSubstr("rank 1 of 1"));
  EXPECT_THAT(refused([](LoaderOptions& o) { o.micro_batch = 0; }),
              HasSubstr("micro_batch 0"));
  EXPECT_THAT(refused([](LoaderOptions& o) { o.epochs = -1; }),
              HasSubstr("epochs -1"));
  EXPECT_THAT(refused([](LoaderOptions& o) { o.packing.context_length = 99; }),
              HasSubstr("context_length 99"));
  EXPECT_THAT(refused([](LoaderOptions&) {}, -1), HasSubstr("first sample -1"));
}

TEST(SampleIndex, a_late_epoch_is_found_exactly_and_fast) {
  test::TempDir dir;
  const std::vector<std::uint64_t> lengths = some_lengths(2000);
  const Data dataset = make_dataset(dir, lengths);
  const PackingOptions packing = {.context_length = 8, .sequence_length = 20};
  SampleIndex jump(*dataset, packing, {});
  SampleIndex walk(*dataset, packing, {});
  std::uint64_t first = 0;
  for (std::uint64_t epoch = 0; epoch < 1000; ++epoch) {
    first += walk.rows_of(epoch).row_count();
  }
  EXPECT_EQ(jump.place_of(first), (SamplePlace{1000, 0}));
  EXPECT_EQ(jump.place_of(first - 1),
            (SamplePlace{999, walk.rows_of(999).row_count() - 1}));
  EXPECT_EQ(jump.first_sample_of(1000), first);
  EXPECT_EQ(jump.place_of(0), (SamplePlace{0, 0}));
}

TEST(DataFingerprint, changes_with_all_that_decides_and_nothing_else) {
  test::TempDir dir;
  const Data dataset = make_dataset(dir, {5, 6, 7});
  const auto print = [&](const PackingOptions& packing,
                         const OrderOptions& order) {
    return data_fingerprint(*dataset, packing, order);
  };
  const std::string base = print({}, {});
  EXPECT_EQ(base.size(), 16U);
  EXPECT_EQ(print({}, {}), base);
  EXPECT_NE(print({.packing = Packing::kStream}, {}), base);
  EXPECT_NE(print({.context_length = 4095}, {}), base);
  EXPECT_NE(print({.sequence_length = 65535}, {}), base);
  EXPECT_NE(print({.mask_document_end = true}, {}), base);
  EXPECT_NE(print({}, {.seed = 43}), base);
  EXPECT_NE(print({}, {.shuffle = false}), base);
  EXPECT_EQ(print({}, {.shuffle = false, .seed = 1}),
            print({}, {.shuffle = false, .seed = 2}));
  const Data other = make_dataset(dir, {5, 7, 6});
  EXPECT_NE(data_fingerprint(*other, {}, {}), base);
}

}  // namespace
}  // namespace osdn::data
