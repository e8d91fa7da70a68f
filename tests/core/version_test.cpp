#include "osdn/core/version.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>

#include "osdn/core/file.h"
#include "support/temp_dir.h"

namespace osdn {
namespace {

TEST(Version, looks_like_one) {
  EXPECT_TRUE(std::regex_match(version(), std::regex(R"(\d+\.\d+\.\d+)")))
      << version();
  EXPECT_TRUE(
      std::regex_match(commit(), std::regex("unknown|[0-9a-f]{40}(-dirty)?")))
      << commit();
  EXPECT_EQ(version_line("osdn-train"),
            "osdn-train " + version() + " (" + commit() + ")");
}

// The script that writes the header at build time, in a source tree of its own.
class VersionScript : public ::testing::Test {
 protected:
  void SetUp() override {
    if (shell("cmake --version") != 0 || shell("git --version") != 0) {
      GTEST_SKIP() << "needs cmake and git on the PATH";
    }
    std::filesystem::create_directory(source());
    std::ofstream(source() / "file") << "one";
  }

  static int shell(const std::string& command) {
    return std::system((command + " >/dev/null 2>&1").c_str());
  }
  int git(const std::string& arguments) const {
    return shell("cd '" + source().string() +
                 "' && git -c user.name=t -c user.email=t@localhost "
                 "-c commit.gpgsign=false " +
                 arguments);
  }
  std::filesystem::path source() const { return folder_ / "source"; }
  std::filesystem::path header() const { return folder_ / "version.h"; }

  std::string written() const {
    EXPECT_EQ(shell("cmake -DSOURCE='" + source().string() +
                    "' -DVERSION=1.2.3 -DOUTPUT='" + header().string() +
                    "' -P '" OSDN_SOURCE_DIR "/cmake/OsdnVersion.cmake'"),
              0);
    return read_file(header());
  }

  test::TempDir folder_;
};

TEST_F(VersionScript, outside_git_the_commit_is_unknown) {
  const std::string text = written();
  EXPECT_NE(text.find("#define OSDN_VERSION \"1.2.3\""), std::string::npos);
  EXPECT_NE(text.find("#define OSDN_COMMIT \"unknown\""), std::string::npos);
}

TEST_F(VersionScript, a_commit_is_named_and_changes_are_marked) {
  ASSERT_EQ(git("init"), 0);
  ASSERT_EQ(git("add file"), 0);
  ASSERT_EQ(git("commit -m first"), 0);
  const std::regex clean(R"re(OSDN_COMMIT "[0-9a-f]{40}")re");
  const std::regex dirty(R"re(OSDN_COMMIT "[0-9a-f]{40}-dirty")re");
  EXPECT_TRUE(std::regex_search(written(), clean));

  // Files that git does not know are no change of what is built.
  std::ofstream(source() / "untracked") << "x";
  EXPECT_TRUE(std::regex_search(written(), clean));

  // A second run without news leaves the file alone, so nothing is rebuilt.
  const auto before = std::filesystem::last_write_time(header());
  written();
  EXPECT_EQ(std::filesystem::last_write_time(header()), before);

  std::ofstream(source() / "file") << "two";
  EXPECT_TRUE(std::regex_search(written(), dirty));
}

TEST_F(VersionScript, a_checkout_around_the_tree_does_not_count) {
  ASSERT_EQ(git("init"), 0);
  ASSERT_EQ(git("add file"), 0);
  ASSERT_EQ(git("commit -m first"), 0);
  const auto inner = source() / "unpacked";
  std::filesystem::create_directory(inner);
  EXPECT_EQ(shell("cmake -DSOURCE='" + inner.string() +
                  "' -DVERSION=1 -DOUTPUT='" + header().string() +
                  "' -P '" OSDN_SOURCE_DIR "/cmake/OsdnVersion.cmake'"),
            0);
  EXPECT_NE(read_file(header()).find("\"unknown\""), std::string::npos);
}

}  // namespace
}  // namespace osdn
