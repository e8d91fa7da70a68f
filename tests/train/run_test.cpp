// Whole runs in this process: the loop, its log, its folder, its refusals.
// resume_test.cpp has what concerns going on, program_test.cpp the program.

#include "osdn/train/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "osdn/checkpoint/checkpoint_store.h"
#include "osdn/config/reader.h"
#include "osdn/config/schedule.h"
#include "osdn/core/file.h"
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
using testing::Contains;
using testing::ElementsAre;
using testing::Ge;
using testing::HasSubstr;
using testing::Lt;
using testing::Not;
using testing::SizeIs;

TEST(Run, learns_and_keeps_a_log_of_every_step) {
  TinyRun tiny;
  tiny.json["training"]["steps"] = 60;
  tiny.json["training"]["validate_every"] = 20;
  tiny.json["schedule"]["total_steps"] = 60;
  tiny.json["checkpoint"] = {{"every", 20}, {"keep_last", 2}};
  const test::LogCapture messages;
  run(tiny.request());
  const auto log = tiny.log();
  ASSERT_THAT(log, SizeIs(60));
  const auto mean = [&](std::size_t from) {
    double sum = 0;
    for (std::size_t i = from; i < from + 5; ++i) sum += log[i].loss;
    return sum / 5;
  };
  EXPECT_NEAR(mean(0), std::log(40), 0.2);  // a uniform guess
  EXPECT_LT(mean(55), mean(0) - 0.8);
  ASSERT_TRUE(log[19].validation && log[59].validation);
  EXPECT_FALSE(log[18].validation);
  EXPECT_LT(log[59].validation->loss, log[19].validation->loss);
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < log.size(); ++i) {
    EXPECT_EQ(log[i].step, static_cast<std::int64_t>(i) + 1);
    EXPECT_EQ(log[i].lr, config::learning_rate(tiny.config().schedule, 0.01,
                                               static_cast<std::int64_t>(i)));
    EXPECT_GT(log[i].tokens, tokens);
    EXPECT_GT(log[i].valid_labels, 0);
    EXPECT_GT(log[i].grad_norm, 0);
    EXPECT_GT(log[i].tokens_per_s, 0);
    tokens = log[i].tokens;
  }
  EXPECT_THAT(tiny.saved_steps(), ElementsAre(40, 60));
  EXPECT_THAT(messages.text(), HasSubstr("finished step 60 of 60"));
}

TEST(Run, writes_what_it_was_and_a_checkpoint_that_stands_alone) {
  const TinyRun tiny;
  const test::LogCapture messages;
  RunRequest request = tiny.request();
  request.command_line = {"osdn-train", "--config", "tiny\xff"};
  run(request);
  const fs::path run_dir = tiny.run_dir();
  EXPECT_EQ(read_file(run_dir / "config.json"),
            config::to_json(request.config));
  const auto invocation =
      nlohmann::json::parse(read_file(run_dir / "invocations.jsonl"));
  EXPECT_EQ(invocation.at("command").at(1), "--config");
  EXPECT_FALSE(invocation.at("commit").get<std::string>().empty());
  EXPECT_FALSE(invocation.at("version").get<std::string>().empty());
  EXPECT_EQ(invocation.at("from_step"), 0);
  const fs::path last = run_dir / "checkpoints" / "step_000000012";
  EXPECT_EQ(read_file(last / "config.json"), config::to_json(request.config));
  EXPECT_TRUE(fs::exists(last / "model.safetensors"));
  EXPECT_EQ(test::read_json(last / "state.json").at("step"), 12);
}

TEST(Run, R7_prints_both_decay_groups) {
  const TinyRun tiny;
  const test::LogCapture messages;
  run(tiny.request());
  // Of one layer, d0, W_r and b_r are free: 2 x 8, 2 x 16, 2.
  EXPECT_THAT(messages.text(), HasSubstr("none on 50 in 3 tensors"));
  const test::LogCapture more;
  run(tiny.request("exempt",
                   {"optimizer.decay_exempt=true", "logging.level=info"}));
  // Beside them embedding 640, norms 3 x 16 + 8, convolutions 3 x 16 x 4.
  EXPECT_THAT(more.text(), HasSubstr("none on 938 in 11 tensors"));
}

TEST(Run, same_bits_when_repeated) {
  const TinyRun tiny;
  const test::LogCapture messages;
  run(tiny.request("a"));
  run(tiny.request("b"));
  EXPECT_EQ(fingerprints(tiny.log("a")), fingerprints(tiny.log("b")));
}

TEST(Run, L4_training_with_validation_and_without_is_bitwise_the_same) {
  const TinyRun tiny;
  const test::LogCapture messages;
  run(tiny.request("often", {"training.validate_every=1"}));
  run(tiny.request("never", {"training.validate_every=0"}));
  EXPECT_EQ(fingerprints(tiny.log("often"), false),
            fingerprints(tiny.log("never"), false));
  const auto weights = [&](const std::string& name) {
    return read_file(tiny.run_dir(name) / "checkpoints/step_000000012" /
                     "model.safetensors");
  };
  EXPECT_EQ(weights("often"), weights("never"));
}

TEST(Run, L5_the_validation_loss_is_one_number_for_any_micro_batch) {
  const TinyRun tiny;
  const test::LogCapture messages;
  std::vector<double> losses;
  for (const char* size : {"1", "2", "4"}) {
    // No update moves the weights, so that only the layout differs.
    run(tiny.request(size, {"training.global_batch=4", "optimizer.lr=1e-300",
                            std::string("training.micro_batch=") + size}));
    losses.push_back(tiny.log(size).back().validation->loss);
    EXPECT_EQ(tiny.log(size).back().validation->tokens,
              tiny.log("1").back().validation->tokens);
  }
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_EQ(losses[0], losses[2]);
}

TEST(Run, D8_prefetch_depth_changes_nothing) {
  const TinyRun tiny;
  const test::LogCapture messages;
  run(tiny.request("none", {"data.prefetch_steps=0"}));
  run(tiny.request("deep", {"data.prefetch_steps=5"}));
  EXPECT_EQ(fingerprints(tiny.log("none")), fingerprints(tiny.log("deep")));
}

TEST(Run, P1_skipped_steps_hold_the_schedule_back_and_the_data_go_on) {
  const TinyRun tiny;
  const test::LogCapture messages;
  RunRequest request = tiny.request();
  request.observer = [](std::int64_t step, const model::LanguageModel& model) {
    if (step == 3 || step == 4 || step == 8) test::poison_gradient(model);
  };
  run(request);
  const auto log = tiny.log();
  ASSERT_THAT(log, SizeIs(12));
  std::int64_t updates = 0;
  for (const report::StepRecord& record : log) {
    const bool bad = record.step == 3 || record.step == 4 || record.step == 8;
    EXPECT_EQ(record.skipped, bad) << record.step;
    EXPECT_EQ(record.lr,
              config::learning_rate(request.config.schedule, 0.01, updates));
    updates += !bad;
  }
  const auto state = test::read_json(tiny.run_dir() / "checkpoints" /
                                     "step_000000012" / "state.json");
  EXPECT_EQ(state.at("updates"), 9);
  EXPECT_EQ(state.at("skipped"), 3);
  EXPECT_EQ(state.at("skipped_in_row"), 0);
  EXPECT_EQ(state.at("next_sample"), 24);
  EXPECT_THAT(messages.text(), HasSubstr("step 4: gradient norm is nan"));
}

TEST(Run, P1_C7_too_many_skips_in_a_row_stop_and_the_good_state_is_saved) {
  const TinyRun tiny;
  const test::LogCapture messages;
  RunRequest request = tiny.request("run", {"training.max_skips=3"});
  request.observer = [](std::int64_t step, const model::LanguageModel& model) {
    if (step > 5) test::poison_gradient(model);
  };
  const std::string message =
      error_of([&] { run(request); }, ExitCode::kNonFinite);
  EXPECT_THAT(message,
              AllOf(HasSubstr("3 steps in a row"), HasSubstr("update 5")));
  EXPECT_THAT(tiny.log(), SizeIs(8));
  EXPECT_THAT(tiny.saved_steps(), ElementsAre(4, 8));
  // Good indeed: a new run takes it up.
  RunRequest again = tiny.request("run", {"training.max_skips=3"});
  again.resume = ResumeMode::kAuto;
  run(again);
  EXPECT_THAT(tiny.log(), SizeIs(12));
}

TEST(Run, C7_weights_that_went_bad_are_never_saved) {
  const TinyRun tiny;
  const test::LogCapture messages;
  run(tiny.request("run", {"training.steps=4"}));
  RunRequest broken = tiny.request("run", {"training.max_skips=1000"});
  broken.resume = ResumeMode::kAuto;
  broken.config.optimizer.lr = 1e39;  // more than a float holds
  broken.config.training.steps = 1000;
  EXPECT_THAT(error_of([&] { run(broken); }, ExitCode::kNonFinite),
              HasSubstr("the state of step 8 could not be saved"));
  EXPECT_THAT(messages.text(), HasSubstr("error step 8 is not saved"));
  // It goes on no longer than the look at the copy takes.
  EXPECT_THAT(tiny.log(), SizeIs(AllOf(Ge(8), Lt(100))));
  EXPECT_THAT(tiny.saved_steps(), ElementsAre(4));
  RunRequest again = tiny.request("run");
  again.resume = ResumeMode::kAuto;
  run(again);
  run(tiny.request("whole"));
  EXPECT_EQ(fingerprints(tiny.log()), fingerprints(tiny.log("whole")));
}

TEST(Run, P1_policy_stop_ends_before_the_bad_step) {
  const TinyRun tiny;
  const test::LogCapture messages;
  RunRequest request = tiny.request("run", {"training.non_finite=stop"});
  request.observer = [](std::int64_t step, const model::LanguageModel& model) {
    if (step == 6) test::poison_gradient(model);
  };
  const std::string message =
      error_of([&] { run(request); }, ExitCode::kNonFinite);
  EXPECT_THAT(message, HasSubstr("step 6: gradient norm is nan"));
  EXPECT_THAT(tiny.log(), SizeIs(5));
  EXPECT_THAT(tiny.saved_steps(), ElementsAre(4, 5));
}

TEST(Run, L3_steps_without_labels_are_loud_and_no_updates) {
  TinyRun tiny;
  // Documents of one token: with their ends masked, nothing has a label.
  test::write_shard(tiny.folder() / "train.tokens",
                    std::vector<std::vector<std::int32_t>>(50, {3}));
  tiny.json["data"]["mask_document_end"] = true;
  tiny.json["training"]["steps"] = 3;
  const test::LogCapture messages;
  run(tiny.request());
  for (const report::StepRecord& record : tiny.log()) {
    EXPECT_TRUE(record.skipped);
    EXPECT_EQ(record.valid_labels, 0);
    EXPECT_TRUE(std::isnan(record.loss));  // null in the file
  }
  EXPECT_THAT(messages.text(), HasSubstr("warn step 3: no label is valid"));
}

TEST(Run, D7_the_end_of_the_data_is_a_clean_end) {
  TinyRun tiny;
  tiny.json["data"]["epochs"] = 1;
  tiny.json["training"]["steps"] = 1000;
  const test::LogCapture messages;
  run(tiny.request());
  const auto log = tiny.log();
  EXPECT_LT(log.size(), 30U);
  EXPECT_TRUE(log.back().validation);
  EXPECT_EQ(tiny.saved_steps().back(), log.back().step);
  std::int64_t tokens = 0;
  for (const auto& document : test::tiny_documents(1, 40)) {
    tokens += static_cast<std::int64_t>(document.size());
  }
  EXPECT_EQ(log.back().tokens, tokens);
  EXPECT_THAT(messages.text(), HasSubstr("the data ended"));
}

TEST(Run, R2_training_may_stop_inside_and_go_past_the_schedule) {
  const TinyRun tiny;
  const test::LogCapture messages;
  run(tiny.request("inside", {"schedule.total_steps=1000"}));
  EXPECT_GT(tiny.log("inside").back().lr, 0.0099);
  run(tiny.request("past", {"schedule.total_steps=6"}));
  EXPECT_EQ(tiny.log("past")[5].lr, tiny.log("past")[11].lr);
}

TEST(Run, C2_a_full_disk_is_survived_and_the_save_tried_again) {
  TinyRun tiny;
  tiny.json["training"]["steps"] = 30;
  tiny.json["training"]["validate_every"] = 0;
  tiny.json["checkpoint"]["every"] = 5;
  const test::LogCapture messages;
  RunRequest request = tiny.request();
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  request.observer = [&](std::int64_t step, const model::LanguageModel&) {
    rlimit limit = before;
    if (step >= 10 && step < 20) limit.rlim_cur = 2048;
    ::setrlimit(RLIMIT_FSIZE, &limit);
  };
  run(request);
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(messages.text(), AllOf(HasSubstr("error step 10 is not saved"),
                                     HasSubstr("error step 15 is not saved"),
                                     HasSubstr("step_000000020 in")));
  EXPECT_THAT(tiny.saved_steps(), ElementsAre(20, 25, 30));
  EXPECT_THAT(tiny.log(), SizeIs(30));  // records waited in memory
}

TEST(Run, C2_a_last_save_that_fails_is_an_error) {
  const TinyRun tiny;
  const test::LogCapture messages;
  RunRequest request = tiny.request();
  const std::string message = [&] {
    rlimit before{};
    ::getrlimit(RLIMIT_FSIZE, &before);
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    request.observer = [&](std::int64_t step, const model::LanguageModel&) {
      rlimit limit = before;
      if (step == 12) limit.rlim_cur = 2048;
      ::setrlimit(RLIMIT_FSIZE, &limit);
    };
    const std::string out = error_of([&] { run(request); }, ExitCode::kFailure);
    ::setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, handler);
    return out;
  }();
  EXPECT_THAT(message, HasSubstr("the state of step 12 could not be saved"));
  // That of step 8 may have been on its way to the full disk, too.
  EXPECT_THAT(tiny.saved_steps(), AllOf(Contains(4), Not(Contains(12))));
}

TEST(Run, C4_an_occupied_folder_is_refused_and_moved_aside_on_request) {
  const TinyRun tiny;
  const test::LogCapture messages;
  run(tiny.request());
  const std::string before = read_file(tiny.run_dir() / "log.jsonl");
  const std::string message = error_of([&] { run(tiny.request()); });
  EXPECT_THAT(message, HasSubstr(tiny.run_dir().string()));
  EXPECT_EQ(read_file(tiny.run_dir() / "log.jsonl"), before);

  RunRequest overwrite =
      tiny.request("run", {"training.steps=3", "checkpoint.every=0"});
  overwrite.overwrite = true;
  run(overwrite);
  EXPECT_THAT(tiny.log(), SizeIs(3));
  // Nothing of the older run can be picked up.
  EXPECT_THAT(tiny.saved_steps(), ElementsAre(3));
}

TEST(Run, a_flipped_byte_that_is_still_an_id_is_found_before_the_first_step) {
  for (const char* name : {"train.tokens", "validation.tokens"}) {
    const TinyRun tiny;
    const test::LogCapture messages;
    const fs::path shard = tiny.folder() / name;
    std::string bytes = read_file(shard);
    bytes[300] ^= 1;  // ids up to 39 keep to the vocabulary of 40
    std::ofstream(shard, std::ios::binary) << bytes;
    EXPECT_THAT(error_of([&] { run(tiny.request()); }, ExitCode::kBadInput),
                AllOf(HasSubstr(shard.string() + ": offset 256 to"),
                      HasSubstr("are damaged")));
    EXPECT_FALSE(fs::exists(tiny.run_dir()));
    run(tiny.request("run", {"data.verify=false"}));
    EXPECT_THAT(tiny.log(), SizeIs(12));
    RunRequest again = tiny.request();
    again.resume = ResumeMode::kAuto;
    error_of([&] { run(again); }, ExitCode::kBadInput);
  }
}

TEST(Run, what_is_wrong_is_found_before_the_run_folder_is_made) {
  const TinyRun tiny;
  const test::LogCapture messages;
  const auto refused = [&](const std::string& override_text,
                           ExitCode code = ExitCode::kUsage) {
    const std::string message =
        error_of([&] { run(tiny.request("run", {override_text})); }, code);
    EXPECT_FALSE(fs::exists(tiny.run_dir())) << override_text;
    return message;
  };
  EXPECT_THAT(refused("training.device=cuda"), HasSubstr("training.device"));
  EXPECT_THAT(refused("training.cuda_graph=on"),
              HasSubstr("training.cuda_graph"));
  EXPECT_THAT(refused(R"(data.train=["nowhere.tokens"])", ExitCode::kBadInput),
              HasSubstr("nowhere.tokens"));
  // D6: ids that the model does not have.
  EXPECT_THAT(refused("model.vocab_size=20", ExitCode::kBadInput),
              AllOf(HasSubstr("train.tokens"), HasSubstr("20")));
  std::ofstream(tiny.folder() / "other.model") << "not that tokenizer";
  EXPECT_THAT(
      refused("data.tokenizer=" + (tiny.folder() / "other.model").string(),
              ExitCode::kBadInput),
      HasSubstr("tokenizer"));
}

}  // namespace
}  // namespace osdn::train
