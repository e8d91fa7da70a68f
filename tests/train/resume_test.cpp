// A run that was cut and goes on is the uncut run, bit for bit.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "osdn/core/file.h"
#include "osdn/train/run.h"
#include "support/json.h"
#include "train/poison.h"
#include "train/tiny_run.h"

namespace osdn::train {
namespace {

namespace fs = std::filesystem;
using test::error_of;
using test::fingerprints;
using test::TinyRun;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

RunRequest resumed(RunRequest request) {
  request.resume = ResumeMode::kAuto;
  return request;
}

std::string file_of(const TinyRun& tiny, const std::string& name,
                    const std::string& file) {
  return read_file(tiny.run_dir(name) / "checkpoints/step_000000012" / file);
}

void expect_same_end(const TinyRun& tiny, const std::string& a,
                     const std::string& b) {
  EXPECT_EQ(fingerprints(tiny.log(a)), fingerprints(tiny.log(b)));
  for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
    EXPECT_EQ(file_of(tiny, a, file), file_of(tiny, b, file)) << file;
  }
}

// An epoch of the tiny run ends at step 6 or so: cuts lie before and after.
class ResumeBits : public testing::TestWithParam<const char*> {};

TEST_P(ResumeBits, R1_D2_cut_anywhere_losses_and_weights_are_the_uncut_ones) {
  TinyRun tiny;
  tiny.json["training"]["dtype"] = GetParam();
  tiny.json["checkpoint"]["every"] = 0;
  const test::LogCapture messages;
  // Steps 3 and 9 are skipped, the first of them right after a cut.
  const GradientObserver poison = [](std::int64_t step,
                                     const model::LanguageModel& model) {
    if (step == 3 || step == 9) test::poison_gradient(model);
  };
  RunRequest whole = tiny.request("whole");
  whole.observer = poison;
  run(whole);
  ASSERT_THAT(tiny.log("whole"), SizeIs(12));
  for (const int cut : {1, 2, 3, 5, 6, 7, 9, 11}) {
    const std::string name = "cut" + std::to_string(cut);
    RunRequest first = tiny.request(
        name,
        {"training.steps=" + std::to_string(cut), "training.validate_every=0"});
    first.observer = poison;
    run(first);
    RunRequest second = resumed(tiny.request(name));
    second.observer = poison;
    run(second);
    // The first part did not validate.
    const auto log = fingerprints(tiny.log(name), false);
    EXPECT_EQ(log, fingerprints(tiny.log("whole"), false)) << name;
    for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
      EXPECT_EQ(file_of(tiny, name, file), file_of(tiny, "whole", file))
          << name << " " << file;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, ResumeBits, testing::Values("fp32", "fp64"),
                         [](const auto& dtype) { return dtype.param; });

TEST(Resume, R1_cut_twice_with_two_threads_and_another_prefetch_depth) {
  TinyRun tiny;
  tiny.json["training"]["threads"] = 2;
  const test::LogCapture messages;
  run(tiny.request("whole"));
  run(tiny.request("cut", {"training.steps=4", "data.prefetch_steps=7"}));
  run(resumed(tiny.request("cut", {"training.steps=8"})));
  run(resumed(tiny.request("cut", {"data.prefetch_steps=0"})));
  expect_same_end(tiny, "whole", "cut");
}

// The stop comes with the step whose validation is due: in the middle, at
// training.steps, and where the data end.
TEST(Resume, R1_O1_a_validation_that_a_stop_cut_off_is_made_up_for) {
  TinyRun tiny;
  tiny.json["data"]["epochs"] = 2;
  tiny.json["training"]["validate_every"] = 5;
  tiny.json["checkpoint"]["every"] = 0;
  const test::LogCapture messages;
  run(tiny.request("short"));
  run(tiny.request("long", {"training.steps=1000"}));
  const std::int64_t end = tiny.log("long").back().step;
  ASSERT_NE(end % 5, 0) << "no validation of its own at the data's end";
  struct Cut {
    const char* whole;
    std::int64_t step;
  };
  for (const Cut& cut :
       {Cut{"short", 5}, Cut{"short", 12}, Cut{"long", 10}, Cut{"long", end}}) {
    const std::string name = cut.whole + std::to_string(cut.step);
    const std::vector<std::string> overrides = {
        "training.steps=" +
        std::string(name.starts_with("long") ? "1000" : "12")};
    RunRequest first = tiny.request(name, overrides);
    first.observer = [&](std::int64_t step, const model::LanguageModel&) {
      if (step == cut.step) ::raise(SIGTERM);
    };
    run(first);
    ASSERT_EQ(tiny.log(name).back().step, cut.step);
    EXPECT_TRUE(tiny.log(name).back().validation_owed);
    // Stopped again before it had begun, it is still owed.
    RunRequest second = resumed(tiny.request(name, overrides));
    second.stop_after_s = 0;
    run(second);
    EXPECT_TRUE(tiny.log(name).back().validation_owed);
    run(resumed(tiny.request(name, overrides)));
    EXPECT_EQ(fingerprints(tiny.log(name)), fingerprints(tiny.log(cut.whole)))
        << name;
  }
}

TEST(Resume, an_owed_validation_waits_while_the_run_validates_no_more) {
  const TinyRun tiny;
  const test::LogCapture messages;
  RunRequest first = tiny.request();
  first.observer = [](std::int64_t step, const model::LanguageModel&) {
    if (step == 4) ::raise(SIGTERM);
  };
  run(first);
  run(resumed(tiny.request("run", {"training.validate_every=0"})));
  EXPECT_TRUE(tiny.log()[3].validation_owed);
  EXPECT_FALSE(tiny.log().back().validation_owed);
}

// Softmax layers, alone and among others, learn and resume like the rest.
TEST(Resume, R1_transformers_and_hybrids) {
  const nlohmann::json softmax = {{"num_heads", 2}, {"num_kv_heads", 1}};
  nlohmann::json hybrid = softmax;
  hybrid["layers"] = {0};
  const test::LogCapture messages;
  for (const bool transformer : {true, false}) {
    TinyRun tiny;
    nlohmann::json& model = tiny.json["model"];
    model["num_layers"] = 2;
    model["softmax"] = transformer ? softmax : hybrid;
    if (transformer) {
      model["layer"] = "transformer";
      model.erase("num_heads");
      model.erase("preconditioner");
    }
    run(tiny.request("whole"));
    run(tiny.request("cut", {"training.steps=4"}));
    run(resumed(tiny.request("cut")));
    expect_same_end(tiny, "whole", "cut");
    const auto log = tiny.log("whole");
    EXPECT_LT(log.back().loss, log.front().loss) << transformer;
  }
}

TEST(Resume, starts_a_run_where_there_is_none) {
  const TinyRun tiny;
  const test::LogCapture messages;
  run(tiny.request("plain"));
  run(resumed(tiny.request("auto")));
  expect_same_end(tiny, "plain", "auto");
  run(resumed(tiny.request("auto")));
  EXPECT_THAT(messages.text(), HasSubstr("nothing is left to do"));
  EXPECT_THAT(tiny.log("auto"), SizeIs(12));
}

TEST(Resume, O1_each_step_is_in_the_log_once_after_a_rewind) {
  const TinyRun tiny;
  const test::LogCapture messages;
  run(tiny.request("whole"));
  run(tiny.request("run", {"training.steps=7"}));
  // Killed after step 7 was logged, before it was saved.
  fs::remove_all(tiny.run_dir() / "checkpoints/step_000000007");
  std::ofstream(tiny.run_dir() / "log.jsonl", std::ios::app)
      << "{\"step\": 8, \"lo";
  run(resumed(tiny.request()));
  expect_same_end(tiny, "whole", "run");
  EXPECT_THAT(messages.text(), HasSubstr("goes back to step 4"));
}

TEST(Resume, C1_walks_back_to_a_sound_checkpoint_and_says_why) {
  const TinyRun tiny;
  const test::LogCapture messages;
  run(tiny.request("whole"));
  run(tiny.request("run"));
  const fs::path last = tiny.run_dir() / "checkpoints/step_000000012";
  fs::resize_file(last / "optimizer.safetensors", 100);
  run(resumed(tiny.request()));
  EXPECT_THAT(messages.text(),
              AllOf(HasSubstr("warn passed over " + last.string()),
                    HasSubstr("optimizer.safetensors")));
  expect_same_end(tiny, "whole", "run");
}

TEST(Resume, C1_without_any_sound_checkpoint_it_is_an_error) {
  const TinyRun tiny;
  const test::LogCapture messages;
  run(tiny.request());
  for (const std::int64_t step : tiny.saved_steps()) {
    const std::string number = std::to_string(step);
    const std::string name =
        "step_" + std::string(9 - number.size(), '0') + number;
    fs::remove(tiny.run_dir() / "checkpoints" / name / "model.safetensors");
  }
  EXPECT_THAT(
      error_of([&] { run(resumed(tiny.request())); }, ExitCode::kBadInput),
      AllOf(HasSubstr("no checkpoint is sound"), HasSubstr("step_000000004"),
            HasSubstr("--overwrite")));
}

TEST(Resume, C4_back_to_an_older_checkpoint_sets_later_ones_aside) {
  const TinyRun tiny;
  const test::LogCapture messages;
  run(tiny.request("whole"));
  run(tiny.request("run"));
  RunRequest back = tiny.request();
  set_resume(back, (tiny.run_dir() / "checkpoints/step_000000004/").string());
  back.stop_after_s = 0;  // stops before its first step
  run(back);
  EXPECT_THAT(tiny.saved_steps(), ElementsAre(4));
  EXPECT_THAT(tiny.log(), SizeIs(4));
  run(resumed(tiny.request()));
  expect_same_end(tiny, "whole", "run");
}

TEST(Resume, from_the_checkpoint_of_another_run) {
  const TinyRun tiny;
  const test::LogCapture messages;
  run(tiny.request("whole"));
  RunRequest branch = tiny.request("branch");
  set_resume(branch,
             (tiny.run_dir("whole") / "checkpoints/step_000000008").string());
  run(branch);
  EXPECT_EQ(file_of(tiny, "branch", "model.safetensors"),
            file_of(tiny, "whole", "model.safetensors"));
  const auto log = tiny.log("branch");
  ASSERT_THAT(log, SizeIs(4));
  EXPECT_EQ(log.front().step, 9);
  EXPECT_THAT(tiny.saved_steps("whole"), ElementsAre(4, 8, 12));
  RunRequest newest = tiny.request("newest");
  set_resume(newest, tiny.run_dir("whole").string());
  run(newest);
  EXPECT_THAT(messages.text(), HasSubstr("nothing is left to do"));
  // The other run's folder stays taken (C4).
  error_of([&] { run(branch); });
}

TEST(Resume, R4_a_changed_optimizer_holds_from_here_on_and_is_told) {
  const TinyRun tiny;
  const test::LogCapture messages;
  run(tiny.request("run", {"training.steps=4"}));
  run(resumed(tiny.request("run", {"optimizer.beta1=0.8", "optimizer.lr=0.02",
                                   "optimizer.eps=1e-8"})));
  EXPECT_THAT(
      messages.text(),
      AllOf(HasSubstr("from here on optimizer.beta1 is 0.8, was 0.9"),
            HasSubstr("from here on optimizer.eps is 1e-08, was 1e-15")));
  run(tiny.request("unchanged"));
  EXPECT_EQ(tiny.log("run")[4].lr, 2 * tiny.log("unchanged")[4].lr);
  EXPECT_EQ(tiny.log("run")[4].loss, tiny.log("unchanged")[4].loss);
  EXPECT_NE(tiny.log("run")[5].loss, tiny.log("unchanged")[5].loss);
}

TEST(Resume, another_model_seed_or_data_is_refused_and_nothing_is_changed) {
  const TinyRun tiny;
  const test::LogCapture messages;
  run(tiny.request("run", {"training.steps=4"}));
  const std::string log = read_file(tiny.run_dir() / "log.jsonl");
  const auto refused = [&](const std::vector<std::string>& overrides) {
    return error_of([&] { run(resumed(tiny.request("run", overrides))); });
  };
  EXPECT_THAT(refused({"model.num_heads=4", "training.seed=1"}),
              AllOf(HasSubstr("model.num_heads was 2 and is now 4"),
                    HasSubstr("training.seed was 42 and is now 1")));
  EXPECT_THAT(refused({"data.context_length=8"}),
              HasSubstr("data.context_length was 16 and is now 8"));
  EXPECT_THAT(refused({"training.dtype=fp64"}), HasSubstr("training.dtype"));
  const fs::path others = tiny.folder() / "others.tokens";
  test::write_shard(others, test::tiny_documents(5, 40));
  EXPECT_THAT(refused({"data.train=[\"" + others.string() + "\"]"}),
              HasSubstr("other tokens"));
  EXPECT_EQ(read_file(tiny.run_dir() / "log.jsonl"), log);
  EXPECT_THAT(tiny.saved_steps(), ElementsAre(4));
}

TEST(Resume, other_threads_are_warned_of) {
  const TinyRun tiny;
  const test::LogCapture messages;
  run(tiny.request("run", {"training.steps=4"}));
  run(resumed(tiny.request("run", {"training.threads=2"})));
  EXPECT_THAT(messages.text(),
              HasSubstr("warn the number of CPU threads was 1 and is now 2"));
}

TEST(Resume, R5_no_initialiser_runs_over_a_loaded_model) {
  // With another seed for the weights alone every initial value would change;
  // parameters with values of their own are looked at one by one through the
  // file that the resumed run saves without a step in between.
  const TinyRun tiny;
  const test::LogCapture messages;
  run(tiny.request("run", {"training.steps=4"}));
  const fs::path source = tiny.run_dir() / "checkpoints/step_000000004";
  RunRequest branch = tiny.request("branch", {"optimizer.lr=1e-300"});
  set_resume(branch, source.string());
  run(branch);
  EXPECT_EQ(read_file(source / "model.safetensors"),
            file_of(tiny, "branch", "model.safetensors"));
}

TEST(Resume, contradicting_requests_are_refused) {
  const TinyRun tiny;
  const test::LogCapture messages;
  RunRequest both = resumed(tiny.request());
  both.overwrite = true;
  EXPECT_THAT(error_of([&] { run(both); }), HasSubstr("contradict"));
  RunRequest nowhere = tiny.request();
  set_resume(nowhere, (tiny.folder() / "nowhere").string());
  EXPECT_THAT(error_of([&] { run(nowhere); }, ExitCode::kBadInput),
              HasSubstr("nowhere"));
}

}  // namespace
}  // namespace osdn::train
