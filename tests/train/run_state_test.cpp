#include "osdn/train/run_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "support/json.h"
#include "support/temp_dir.h"

namespace osdn::train {
namespace {

RunState example() {
  RunState state;
  state.step = 9'000'000'000;  // past 32 bits
  state.next_sample = 72'000'000'000;
  state.tokens = 4'000'000'000'000;
  state.skipped = 3;
  state.skipped_in_row = 1;
  state.unlabelled = 2;
  state.train_seconds = 1234.56789;
  state.optimizer = {8'999'999'995, 0.1 + 0.2, 5e-324};
  state.seed = 18'446'744'073'709'551'615U;
  state.data_fingerprint = "0123456789abcdef";
  state.device = "cpu";
  state.dtype = "fp64";
  state.threads = 2;
  state.ranks = 3;
  return state;
}

TEST(RunState, R1_comes_back_from_json_with_every_bit) {
  const test::TempDir folder;
  write_file_atomic(folder / "state.json", to_json(example()));
  const RunState got = read_run_state(folder / "state.json");
  EXPECT_EQ(to_json(got), to_json(example()));
  EXPECT_EQ(got.step, 9'000'000'000);
  EXPECT_EQ(got.next_sample, 72'000'000'000);
  EXPECT_EQ(got.optimizer.beta1_product, 0.1 + 0.2);
  EXPECT_EQ(got.optimizer.beta2_product, 5e-324);
  EXPECT_EQ(got.seed, 18'446'744'073'709'551'615U);
  EXPECT_EQ(got.unlabelled, 2);
  EXPECT_EQ(got.ranks, 3);
}

TEST(RunState, a_damaged_file_is_refused_by_name_and_key) {
  const test::TempDir folder;
  const auto refused = [&](const nlohmann::json& json) {
    test::write_json(folder / "state.json", json);
    try {
      read_run_state(folder / "state.json");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadInput);
      return std::string(error.what());
    }
    ADD_FAILURE() << "accepted " << json;
    return std::string();
  };
  const nlohmann::json good = nlohmann::json::parse(to_json(example()));
  for (const auto& [key, value] : good.items()) {
    nlohmann::json bad = good;
    bad.erase(key);
    if (key == "ranks") continue;  // of one rank, as older files are
    EXPECT_THAT(refused(bad), testing::AllOf(testing::HasSubstr(key),
                                             testing::HasSubstr("missing")));
    bad[key] = nullptr;
    EXPECT_THAT(refused(bad), testing::HasSubstr(key));
    if (value.is_number()) {
      bad[key] = -1;
      EXPECT_THAT(refused(bad), testing::HasSubstr("-1"));
    }
  }
  nlohmann::json later = good;
  later["version"] = 2;
  EXPECT_THAT(refused(later), testing::HasSubstr("version 2"));
  EXPECT_THAT(refused(nlohmann::json::array()),
              testing::HasSubstr("state.json"));
}

}  // namespace
}  // namespace osdn::train
