// Token ids with labels of their own: shards, rows, and the program's way
// there.
#include "osdn/data/pack_ids.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data_fixture.h"
#include "osdn/data/inspect.h"
#include "osdn/data/loader.h"
#include "osdn/data/micro_batch.h"

namespace osdn::data {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Labels = std::vector<std::int64_t>;

class PackIds : public ::testing::Test {
 protected:
  PackIdsOptions options(const std::string& lines) {
    put_file(dir_ / "in.jsonl", lines);
    PackIdsOptions o;
    o.inputs = {dir_ / "in.jsonl"};
    o.output = dir_ / "out";
    o.vocab_size = 100;
    o.overwrite = true;
    return o;
  }

  std::shared_ptr<const TokenDataset> packed(
      const std::string& lines, std::uint64_t shard_tokens = 1000) {
    PackIdsOptions o = options(lines);
    o.shard_tokens = shard_tokens;
    result_ = pack_ids(o);
    return std::make_shared<const TokenDataset>(
        std::vector<fs::path>{o.output});
  }

  std::string error(const std::string& lines) {
    const PackIdsOptions o = options(lines);
    std::string message = error_of([&] { pack_ids(o); });
    EXPECT_FALSE(fs::exists(o.output));
    return message;
  }

  test::TempDir dir_;
  PackIdsResult result_;
};

constexpr const char* kThree =
    "{\"tokens\":[1,2,3],\"labels\":[-100,7,-100]}\n"
    "{\"tokens\":[4],\"labels\":[99]}\n"
    "{\"labels\":[-100,0],\"tokens\":[5,6],\"more\":1}\n";

TEST_F(PackIds, keeps_tokens_and_labels_in_one_shard_or_several) {
  for (const std::uint64_t shard_tokens : {1000, 4, 1}) {
    const auto dataset = packed(kThree, shard_tokens);
    EXPECT_EQ(result_.documents, 3U);
    EXPECT_EQ(result_.tokens, 6U);
    EXPECT_EQ(result_.labels, 3U);
    EXPECT_EQ(result_.shards, dataset->shards().size());
    ASSERT_TRUE(dataset->has_labels());
    Ids ids(2);
    dataset->read(0, 1, ids);
    EXPECT_THAT(ids, ElementsAre(2, 3));
    Labels labels(3);
    dataset->read_labels(0, 0, labels);
    EXPECT_THAT(labels, ElementsAre(kNoLabel, 7, kNoLabel));
    labels.resize(2);
    dataset->read_labels(2, 0, labels);
    EXPECT_THAT(labels, ElementsAre(kNoLabel, 0));
    for (const TokenShard& shard : dataset->shards()) {
      EXPECT_TRUE(shard.verify());
    }
  }
}

TEST_F(PackIds, rows_take_the_labels_as_they_are) {
  const auto dataset = packed(kThree);
  for (const bool mask : {false, true}) {
    PackingOptions packing;
    packing.context_length = 2;
    packing.sequence_length = 4;
    packing.mask_document_end = mask;
    const EpochRows rows(*dataset, packing,
                         DocumentOrder(dataset->document_count(), false, 0, 0));
    MicroBatch batch;
    for (std::uint64_t row = 0; row < rows.row_count(); ++row) {
      append_row(*dataset, rows.segments(row), mask, batch);
    }
    EXPECT_THAT(batch.tokens, ElementsAre(1, 2, 3, 4, 5, 6));
    EXPECT_THAT(batch.labels,
                ElementsAre(kNoLabel, 7, kNoLabel, 99, kNoLabel, 0));
    EXPECT_THAT(batch.cu_seqlens, ElementsAre(0, 2, 3, 4, 6));
    EXPECT_EQ(batch.valid_labels, 3);
    EXPECT_EQ(batch.rows, static_cast<std::int64_t>(rows.row_count()));
  }
}

TEST_F(PackIds, steps_count_the_labels_that_are_there) {
  LoaderOptions loading;
  loading.packing.context_length = 2;
  loading.packing.sequence_length = 4;
  loading.order.shuffle = false;
  loading.epochs = 1;
  loading.global_batch = 2;
  Loader loader(packed(kThree), loading, 0);
  const auto step = loader.next_step();
  ASSERT_TRUE(step);
  std::int64_t valid = 0;
  for (const MicroBatch& micro : step->micro_batches) {
    valid += micro.valid_labels;
  }
  EXPECT_EQ(step->valid_labels, 3);
  EXPECT_EQ(valid, 3);
}

TEST_F(PackIds, the_last_id_of_a_full_vocabulary_is_no_missing_label) {
  for (const std::int64_t vocab : {65535, 65536, 65537, 200000}) {
    PackIdsOptions o = options(concat("{\"tokens\":[", vocab - 1,
                                      "],\"labels\":[", vocab - 1, "]}\n"));
    o.vocab_size = vocab;
    pack_ids(o);
    const TokenDataset dataset({o.output});
    EXPECT_EQ(dataset.shards()[0].header().token_bytes,
              vocab == 65535 ? 2U : 4U);
    Labels labels(1);
    dataset.read_labels(0, 0, labels);
    EXPECT_THAT(labels, ElementsAre(vocab - 1));
  }
}

TEST_F(PackIds, without_labels_the_next_token_is_one) {
  const auto dataset = packed("{\"tokens\":[1,2,3]}\n{\"tokens\":[4]}\n");
  EXPECT_FALSE(dataset->has_labels());
  EXPECT_EQ(result_.labels, 0U);
  MicroBatch batch;
  append_row(*dataset, std::vector<Segment>{{0, 0, 3, true}, {1, 0, 1, true}},
             false, batch);
  EXPECT_THAT(batch.labels, ElementsAre(2, 3, 4, kNoLabel));
  EXPECT_THAT(describe(*dataset), HasSubstr("the next token"));
}

TEST_F(PackIds, a_damaged_label_is_found) {
  const auto dataset = packed(kThree);
  const TokenShard& shard = dataset->shards()[0];
  const std::uint64_t at = *shard.header().labels_offset;
  File file = File::open_update(shard.path());
  file.write_at(at + 2, "\xFF\xFF", 2);
  file.close();
  Labels labels(3);
  EXPECT_THAT(error_of([&] { dataset->read_labels(0, 0, labels); }),
              HasSubstr("label 65535 (of token 1)"));
  EXPECT_THAT(error_of([&] { shard.verify(); }), HasSubstr("damaged"));
}

TEST_F(PackIds, shards_with_and_without_labels_do_not_mix) {
  packed(kThree);
  fs::rename(dir_ / "out", dir_ / "labelled");
  packed("{\"tokens\":[1]}\n");
  EXPECT_THAT(error_of([&] {
                TokenDataset dataset({dir_ / "labelled", dir_ / "out"});
              }),
              HasSubstr("use shards of one kind"));
}

TEST_F(PackIds, bad_lines_are_named) {
  EXPECT_THAT(error("{\"tokens\":[1]}\n{\"tokens\":[100]}\n"),
              HasSubstr("in.jsonl:2: \"tokens\" holds 100"));
  EXPECT_THAT(error("{\"tokens\":[-100]}\n"), HasSubstr("holds -100"));
  EXPECT_THAT(error("{\"tokens\":[1.5]}\n"), HasSubstr("holds 1.5"));
  EXPECT_THAT(error("{\"tokens\":[]}\n"), HasSubstr("is empty"));
  EXPECT_THAT(error("{\"ids\":[1]}\n"), HasSubstr("expected \"tokens\""));
  EXPECT_THAT(error("{\"tokens\":[1],\"labels\":[1,2]}\n"),
              HasSubstr("2 labels for 1 tokens"));
  EXPECT_THAT(error("{\"tokens\":[1],\"labels\":[-1]}\n"),
              HasSubstr("or -100"));
  EXPECT_THAT(error("{\"tokens\":[1],\"labels\":[1]}\n{\"tokens\":[1]}\n"),
              HasSubstr("in.jsonl:2: has no \"labels\""));
  EXPECT_THAT(error("{\"tokens\":[1]}\n{\"tokens\":[1],\"labels\":[1]}\n"),
              HasSubstr("in.jsonl:2: has \"labels\""));
  for (const char* line :
       {R"({"tokens":[1],"tokens":[2]})", R"({"tokens":[1],"x":1,"x":1})"}) {
    EXPECT_THAT(error(concat("{\"tokens\":[1]}\n", line)),
                HasSubstr("in.jsonl:2: the key \""))
        << line;
  }
  // 2^64 - 100, which is -100 where a sign is lost.
  EXPECT_THAT(error("{\"tokens\":[1],\"labels\":[18446744073709551516]}\n"),
              HasSubstr("holds 18446744073709551516"));
  EXPECT_THAT(error("[1]\n"), HasSubstr("not a JSON object"));
  EXPECT_THAT(error("{\n"), HasSubstr("is not JSON"));
  EXPECT_THAT(error("{\"tokens\":[1e999]}\n"), HasSubstr("in.jsonl:1: "));
  EXPECT_THAT(error("\n"), HasSubstr("no document"));
}

TEST_F(PackIds, options_are_checked) {
  PackIdsOptions o = options(kThree);
  o.vocab_size = 0;
  EXPECT_THAT(error_of([&] { pack_ids(o); }, ExitCode::kUsage),
              HasSubstr("--vocab-size is 0"));
  o = options(kThree);
  put_file(dir_ / "in.txt", "text");
  o.inputs = {dir_ / "in.txt"};
  EXPECT_THAT(error_of([&] { pack_ids(o); }, ExitCode::kUsage),
              HasSubstr("in.txt: expected a .jsonl file"));
}

}  // namespace
}  // namespace osdn::data
