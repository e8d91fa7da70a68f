#include "osdn/checkpoint/checkpoint_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "checkpoint/sample_checkpoint.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "osdn/core/version.h"
#include "support/temp_dir.h"

namespace osdn::checkpoint {
namespace {

namespace fs = std::filesystem;
using osdn::test::TempDir;
using test::find_mixture;
using test::names_in;
using test::SampleCheckpoint;
using test::save;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Steps = std::vector<std::int64_t>;

class CheckpointStoreTest : public testing::Test {
 protected:
  const TempDir dir_{TempDir::memory()};
  CheckpointStore store_{dir_ / "checkpoints", {.keep_last = 3}};

  // Changes one byte of a file in place.
  static void flip(const fs::path& path, std::uint64_t at) {
    File file = File::open_update(path);
    char byte = 0;
    file.read_at(at, &byte, 1);
    byte = static_cast<char>(byte ^ 0x10);
    file.write_at(at, &byte, 1);
  }
};

TEST_F(CheckpointStoreTest, nothing_yet) {
  EXPECT_FALSE(store_.find_latest().found.has_value());
  EXPECT_THAT(store_.find_latest().passed_over, IsEmpty());
  EXPECT_FALSE(fs::exists(store_.folder()));
}

TEST_F(CheckpointStoreTest, what_is_saved_is_found) {
  const SaveResult result = save(store_, 100);
  EXPECT_EQ(result.path, store_.folder() / "step_000000100");
  const LatestCheckpoint latest = store_.find_latest();
  ASSERT_TRUE(latest.found.has_value());
  EXPECT_EQ(latest.found->path, result.path);
  EXPECT_EQ(latest.found->step(), 100);
  EXPECT_EQ(latest.found->manifest.commit, commit());
  EXPECT_EQ(latest.found->manifest.time.size(), 20U);
  EXPECT_EQ(find_mixture(*latest.found), "");
  EXPECT_THAT(names_in(result.path),
              ElementsAre("config.json", "manifest.json", "model.safetensors",
                          "optimizer.safetensors", "state.json"));
  EXPECT_EQ(store_.open(100).step(), 100);
  EXPECT_EQ(open_checkpoint(result.path).step(), 100);
}

TEST_F(CheckpointStoreTest, steps_past_nine_digits_are_found_in_order) {
  save(store_, 999'999'999);
  save(store_, 1'000'000'000);
  EXPECT_EQ(store_.find_latest().found->step(), 1'000'000'000);
  EXPECT_EQ(store_.steps(), (Steps{999'999'999, 1'000'000'000}));
}

TEST_F(CheckpointStoreTest, the_same_step_again_replaces_it) {
  save(store_, 100);
  SampleCheckpoint again(100);
  again.parts().texts[1].text = "{\"again\": 1}";
  EXPECT_TRUE(store_.save(100, again.parts()).saved());
  EXPECT_EQ(read_file(store_.open(100).path / "config.json"), "{\"again\": 1}");
  EXPECT_THAT(names_in(store_.folder()), ElementsAre("step_000000100"));
}

TEST_F(CheckpointStoreTest, parts_that_make_no_sense_are_errors) {
  SampleCheckpoint sample(1);
  EXPECT_THROW(store_.save(-1, sample.parts()), Error);
  for (const char* name :
       {"", ".", "..", "a/b", "../b", "manifest.json", "model.safetensors"}) {
    SampleCheckpoint bad(1);
    bad.parts().texts[0].file = name;
    EXPECT_THROW(store_.save(1, bad.parts()), Error) << name;
  }
  EXPECT_FALSE(fs::exists(store_.folder()));
}

// ---- C1: damaged checkpoints are passed over, with the reason
// ------------------

TEST_F(CheckpointStoreTest, C1_each_kind_of_damage_is_passed_over_and_named) {
  save(store_, 100);
  save(store_, 200);
  const fs::path newest = store_.path_of(200);
  const fs::path spare = dir_ / "spare";
  fs::copy(newest, spare);
  const auto expect_passed_over = [&](const std::string& reason) {
    const LatestCheckpoint latest = store_.find_latest();
    ASSERT_TRUE(latest.found.has_value());
    EXPECT_EQ(latest.found->step(), 100) << reason;
    ASSERT_EQ(latest.passed_over.size(), 1U) << reason;
    EXPECT_EQ(latest.passed_over[0].path, newest);
    EXPECT_THAT(latest.passed_over[0].reason, HasSubstr(reason));
    EXPECT_THROW(store_.open(200), Error);
    fs::remove_all(newest);
    fs::copy(spare, newest);
    ASSERT_EQ(store_.find_latest().found->step(), 200);
  };
  for (const std::string& name : names_in(newest)) {
    const fs::path path = newest / name;
    const std::uint64_t size = size_of_file(path);
    fs::remove(path);
    expect_passed_over(name);
    fs::resize_file(path, size - 1);
    expect_passed_over(name);
    fs::resize_file(path, 0);
    expect_passed_over(name);
    flip(path, size / 2);
    expect_passed_over(name);
  }
  std::ofstream(newest / "model.safetensors", std::ios::app) << "more";
  expect_passed_over("model.safetensors has ");
  // A whole checkpoint under the name of another step.
  fs::remove_all(newest);
  fs::copy(store_.path_of(100), newest);
  expect_passed_over("its manifest is of step 100");
}

TEST_F(CheckpointStoreTest, C1_no_byte_of_the_manifest_can_change_unseen) {
  save(store_, 100);
  const fs::path path = store_.path_of(100) / "manifest.json";
  const std::string sound = read_file(path);
  for (std::uint64_t at = 0; at < sound.size(); ++at) {
    flip(path, at);
    EXPECT_FALSE(store_.find_latest().found.has_value()) << at;
    flip(path, at);
  }
  EXPECT_TRUE(store_.find_latest().found.has_value());
}

TEST_F(CheckpointStoreTest, C1_walks_back_over_several) {
  for (const std::int64_t step : {100, 200, 300}) {
    save(store_, step);
  }
  fs::remove(store_.path_of(300) / "manifest.json");
  fs::resize_file(store_.path_of(200) / "state.json", 1);
  const LatestCheckpoint latest = store_.find_latest();
  EXPECT_EQ(latest.found->step(), 100);
  ASSERT_EQ(latest.passed_over.size(), 2U);
  EXPECT_EQ(latest.passed_over[0].path, store_.path_of(300));
  EXPECT_EQ(latest.passed_over[1].path, store_.path_of(200));
}

TEST_F(CheckpointStoreTest, C1_other_names_are_no_checkpoints) {
  save(store_, 100);
  for (const char* name :
       {"step_000000200.tmp-1", "step_000000300.del", "step_400",
        "step_0000000500", "step_-00000600", "step_00000070x", "step_"}) {
    fs::copy(store_.path_of(100), store_.folder() / name);
  }
  std::ofstream(store_.folder() / "step_000000800") << "a file";
  const LatestCheckpoint latest = store_.find_latest();
  EXPECT_EQ(latest.found->step(), 100);
  EXPECT_EQ(store_.steps(), (Steps{100, 800}));
}

// ---- C3: rotation
// -----------------------------------------------------------------

TEST_F(CheckpointStoreTest, C3_keep_three_and_every_hundredth_for_good) {
  CheckpointStore store(dir_ / "other", {.keep_last = 3, .keep_every = 100});
  for (const std::int64_t step : {100, 200, 300, 350}) {
    EXPECT_THAT(save(store, step).removed, IsEmpty());
  }
  EXPECT_EQ(store.steps(), (Steps{100, 200, 300, 350}));
  save(store, 360);
  EXPECT_EQ(store.steps(), (Steps{100, 200, 300, 350, 360}));
  EXPECT_THAT(save(store, 370).removed, IsEmpty());
  EXPECT_THAT(save(store, 380).removed, ElementsAre(350));
  EXPECT_EQ(store.steps(), (Steps{100, 200, 300, 360, 370, 380}));
}

TEST_F(CheckpointStoreTest, C3_fewer_checkpoints_than_are_kept) {
  // step - keep_last * interval below zero must not wrap around.
  CheckpointStore store(dir_ / "other",
                        {.keep_last = INT64_MAX, .keep_every = INT64_MAX});
  for (const std::int64_t step : {0, 1, 2}) {
    EXPECT_THAT(save(store, step).removed, IsEmpty());
  }
  EXPECT_EQ(store.steps(), (Steps{0, 1, 2}));
}

TEST_F(CheckpointStoreTest, C3_a_damaged_one_does_not_push_out_a_sound_one) {
  CheckpointStore store(dir_ / "other", {.keep_last = 2});
  save(store, 100);
  save(store, 200);
  fs::remove(store.path_of(200) / "optimizer.safetensors");
  EXPECT_THAT(save(store, 300).removed, IsEmpty());
  EXPECT_EQ(store.steps(), (Steps{100, 200, 300}));
  // With the newest lost as well there is still one to go back to.
  fs::remove(store.path_of(300) / "manifest.json");
  EXPECT_EQ(store.find_latest().found->step(), 100);
}

TEST_F(CheckpointStoreTest, C3_a_failed_save_deletes_nothing) {
  CheckpointStore store(dir_ / "other", {.keep_last = 1});
  save(store, 100);
  SampleCheckpoint bad(200);
  bad.parts().known_bad = "loss is nan";
  EXPECT_FALSE(store.save(200, bad.parts()).saved());
  EXPECT_EQ(store.steps(), (Steps{100}));
}

TEST_F(CheckpointStoreTest, C3_leavings_of_dead_processes_are_removed) {
  save(store_, 100);
  const pid_t dead = ::fork();
  if (dead == 0) {
    ::_exit(0);
  }
  ASSERT_EQ(::waitpid(dead, nullptr, 0), dead);
  const std::string of_dead = "step_000000050.tmp-" + std::to_string(dead);
  const std::string of_parent =
      "step_000000060.tmp-" + std::to_string(::getppid());
  for (const std::string& name :
       {of_dead, of_parent, std::string("step_000000070.del"),
        std::string("notes.tmp-1"), std::string("step_000000080.txt")}) {
    fs::create_directory(store_.folder() / name);
    std::ofstream(store_.folder() / name / "file") << "x";
  }
  save(store_, 200);
  EXPECT_THAT(names_in(store_.folder()),
              ElementsAre("notes.tmp-1", of_parent, "step_000000080.txt",
                          "step_000000100", "step_000000200"));
}

TEST_F(CheckpointStoreTest, C3_a_retention_that_keeps_nothing_is_refused) {
  EXPECT_THROW(CheckpointStore(dir_ / "x", {.keep_last = 0}), Error);
  EXPECT_THROW(CheckpointStore(dir_ / "x", {.keep_last = -3}), Error);
  EXPECT_THROW(CheckpointStore(dir_ / "x", {.keep_every = -1}), Error);
}

// ---- C4: stale later checkpoints
// ------------------------------------------------

TEST_F(CheckpointStoreTest, C4_going_back_sets_later_checkpoints_aside) {
  for (const std::int64_t step : {100, 200, 300}) {
    save(store_, step);
  }
  const auto moved = store_.set_aside_after(100);
  EXPECT_EQ(moved.size(), 2U);
  EXPECT_EQ(store_.find_latest().found->step(), 100);
  for (const fs::path& path : moved) {
    EXPECT_EQ(find_mixture(open_checkpoint(path)), "");
  }
}

TEST_F(CheckpointStoreTest, C4_a_save_below_a_stale_step_is_the_newest) {
  CheckpointStore store(dir_ / "other", {.keep_last = 1});
  save(store, 300);
  const SaveResult result = save(store, 150);
  EXPECT_EQ(result.set_aside.size(), 1U);
  EXPECT_EQ(store.find_latest().found->step(), 150);
  // Twice within a second: the names do not collide.
  save(store, 300);
  EXPECT_EQ(save(store, 150).set_aside.size(), 1U);
  EXPECT_EQ(names_in(store.folder() / "set_aside").size(), 2U);
}

// ---- C7: a bad state is not saved
// ---------------------------------------------

TEST_F(CheckpointStoreTest, C7_a_state_with_nan_is_refused_and_named) {
  save(store_, 100);
  SampleCheckpoint bad(200);
  auto* moments = static_cast<double*>(bad.parts().tensors[1].tensors[0].data);
  moments[1234] = std::nan("");
  const SaveResult result = store_.save(200, bad.parts());
  EXPECT_EQ(result.status, SaveStatus::kRefused);
  EXPECT_EQ(result.problem,
            "optimizer.safetensors: tensor m has nan at element 1234");
  EXPECT_THAT(names_in(store_.folder()), ElementsAre("step_000000100"));
}

TEST_F(CheckpointStoreTest, C7_the_last_good_one_survives_many_bad_saves) {
  CheckpointStore store(dir_ / "other", {.keep_last = 1});
  save(store, 100);
  for (std::int64_t step = 200; step < 2000; step += 100) {
    SampleCheckpoint bad(step);
    static_cast<float*>(bad.parts().tensors[0].tensors[0].data)[0] = INFINITY;
    EXPECT_EQ(store.save(step, bad.parts()).status, SaveStatus::kRefused);
  }
  EXPECT_EQ(store.find_latest().found->step(), 100);
}

TEST_F(CheckpointStoreTest, a_folder_that_cannot_be_listed_is_bad_input) {
  write_file_atomic(dir_ / "file", "no folder");
  try {
    CheckpointStore(dir_ / "file").find_latest();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_THAT(error.what(), testing::HasSubstr("file: cannot be listed"));
  }
}

TEST_F(CheckpointStoreTest, C7_the_caller_can_know_better_than_the_weights) {
  SampleCheckpoint sample(100);
  sample.parts().known_bad = "the loss of step 100 is nan";
  const SaveResult result = store_.save(100, sample.parts());
  EXPECT_EQ(result.status, SaveStatus::kRefused);
  EXPECT_EQ(result.problem, "the loss of step 100 is nan");
  EXPECT_FALSE(fs::exists(store_.folder()));
}

}  // namespace
}  // namespace osdn::checkpoint
