// Runs of several ranks, before they look after one another: one that does not
// come ends all in time and is named.

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "osdn/core/concat.h"
#include "train/ranks.h"

namespace osdn::train {
namespace {

using test::Program;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class RanksStart : public test::RanksTest {
 protected:
  void SetUp() override {
    RanksTest::SetUp();
    ::setenv("OSDN_START_TIMEOUT", "6", 1);
  }
  void TearDown() override { ::unsetenv("OSDN_START_TIMEOUT"); }

  /// Two ranks in their place and, between them, rank 1 with this command line;
  /// what is said before all have ended.
  std::string with_second(const std::vector<std::string>& second) const {
    std::vector<std::string> all = command(1, "run");
    all.insert(all.end(), {":", "-n", "1"});
    all.insert(all.end(), second.begin(), second.end());
    const std::vector<std::string> third = {
        ":",        "-n",
        "1",        OSDN_BIN_DIR "/osdn-train",
        "--config", tiny.config_file().string()};
    all.insert(all.end(), third.begin(), third.end());
    const auto start = std::chrono::steady_clock::now();
    Program program(all);
    EXPECT_NE(program.wait(), 0);
    EXPECT_LT(std::chrono::steady_clock::now() - start,
              std::chrono::seconds(60));
    EXPECT_THAT(program.err(), Not(HasSubstr("rank 2")));
    return program.err();
  }
};

TEST_F(RanksStart, a_rank_that_is_stopped_before_it_joins_is_named) {
  EXPECT_THAT(
      with_second({"/bin/sh", "-c", "kill -STOP $$"}),
      AllOf(HasSubstr("the ranks have not come together within 6 s: rank 1 "),
            ContainsRegex("rank 1 \\(process [0-9]+\\) is stopped")));
}

TEST_F(RanksStart, a_rank_that_does_not_get_there_is_named) {
  EXPECT_THAT(
      with_second({"/bin/sleep", "100"}),
      ContainsRegex("rank 1 \\(process [0-9]+\\) has not come that far"));
}

// A file system that does not answer, for example.
TEST_F(RanksStart, a_rank_that_hangs_before_the_others_watch_it_is_named) {
  const std::string pipe = (tiny.run_dir().parent_path() / "pipe").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(with_second({OSDN_BIN_DIR "/osdn-train", "--config", pipe}),
              HasSubstr("osdn-train: error: rank 1 did not answer within 6 s"));
}

TEST_F(RanksStart, a_time_that_is_none_is_refused) {
  for (const char* text : {"0", "-3", "1h", "nan", "1e9"}) {
    ::setenv("OSDN_START_TIMEOUT", text, 1);
    Program program({OSDN_BIN_DIR "/osdn-train", "--config",
                     tiny.config_file().string(), "--dry-run"});
    EXPECT_EQ(program.wait(), 2);
    EXPECT_THAT(program.err(), HasSubstr(concat("OSDN_START_TIMEOUT is \"",
                                                text, "\"; expected seconds")));
  }
}

}  // namespace
}  // namespace osdn::train
