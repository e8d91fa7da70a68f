#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "osdn/config/reader.h"
#include "osdn/core/env.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "support/message_of.h"
#include "support/temp_dir.h"

namespace osdn::config {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kMinimal =
    R"({"run_dir": "runs/x", "data": {"train": ["data/x"]}})";
// ---------------------------------------------------------------------------

// Sets a variable for the time of a test.
class WithEnv {
 public:
  WithEnv(std::string name, const std::string& value)
      : name_(std::move(name)), before_(env(name_)) {
    ::setenv(name_.c_str(), value.c_str(), 1);
  }
  ~WithEnv() {
    if (before_) {
      ::setenv(name_.c_str(), before_->c_str(), 1);
    } else {
      ::unsetenv(name_.c_str());
    }
  }
  WithEnv(const WithEnv&) = delete;
  WithEnv& operator=(const WithEnv&) = delete;

 private:
  std::string name_;
  std::optional<std::string> before_;
};

TEST(FindConfig, a_path_comes_first_then_the_search_path_then_the_tree) {
  const test::TempDir first;
  const test::TempDir second;
  const auto source =
      std::filesystem::path(OSDN_SOURCE_DIR) / "configs/340m_osdn_apf.json";
  EXPECT_TRUE(
      std::filesystem::equivalent(find_config("340m_osdn_apf"), source));
  EXPECT_TRUE(
      std::filesystem::equivalent(find_config("340m_osdn_apf.json"), source));
  write_file_atomic(second / "340m_osdn_apf.json", kMinimal);
  const WithEnv path("OSDN_CONFIG_PATH", first.path().string() + "::" +
                                             second.path().string() + ":");
  EXPECT_EQ(find_config("340m_osdn_apf"), second / "340m_osdn_apf.json");
  write_file_atomic(first / "340m_osdn_apf.json", kMinimal);
  EXPECT_EQ(find_config("340m_osdn_apf"), first / "340m_osdn_apf.json");
  EXPECT_EQ(find_config(source.string()), source);
  EXPECT_EQ(load({"340m_osdn_apf", {"optimizer.lr=0.5"}}).optimizer.lr, 0.5);
}

TEST(FindConfig, a_name_with_a_dot_gets_its_ending_too) {
  EXPECT_EQ(find_config("1.3b_osdn").filename(), "1.3b_osdn.json");
}

TEST(FindConfig, not_found_lists_places_and_names) {
  const test::TempDir folder;
  write_file_atomic(folder / "mine.json", kMinimal);
  const WithEnv path("OSDN_CONFIG_PATH", folder.path().string());
  try {
    find_config("340m_osdn_apg");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("\"340m_osdn_apg\" was not found"),
                      HasSubstr(folder.path().string() + "/340m_osdn_apg.json"),
                      HasSubstr("share/osdn/configs/340m_osdn_apg.json"),
                      HasSubstr("Did you mean 340m_osdn_apf.json?"),
                      HasSubstr(" mine.json"), HasSubstr(" 340m_osdn.json")));
  }
  EXPECT_THROW(find_config(""), Error);
  EXPECT_THROW(find_config("/no/such/file.json"), Error);
  try {
    find_config(folder.path().string());
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("is a folder"));
  }
}

TEST(LoadConfig, a_run_folder_takes_the_place_of_the_key_or_of_none) {
  const test::TempDir folder;
  const std::string path = (folder / "mine.json").string();
  write_file_atomic(path, kMinimal);
  EXPECT_EQ(load({path, {}, "a"}).run_dir, "a");
  EXPECT_EQ(load({path, {"run_dir=b"}, "a"}).run_dir, "a");
  EXPECT_EQ(load({path, {"run_dir=b"}, ""}).run_dir, "b");
  write_file_atomic(path, R"({"data": {"train": ["data/x"]}})");
  EXPECT_EQ(load({path, {}, "runs/new"}).run_dir, "runs/new");
  // Whatever it looks like, it is a name.
  for (const char* name : {"12", "null", "[1]", "\"x\"", "a=b", "{}"}) {
    EXPECT_EQ(load({path, {}, name}).run_dir, name);
  }
  EXPECT_THAT(test::message_of(
                  [&] {
                    load({path, {}, ""});
                  },
                  ExitCode::kUsage),
              HasSubstr("run_dir"));
  EXPECT_THAT(test::message_of(
                  [&] {
                    load({path, {}, "a\xff"});
                  },
                  ExitCode::kUsage),
              HasSubstr("--run-dir: the folder's name is not UTF-8"));
}

TEST(FindConfig, messages_name_the_file_that_was_read) {
  const test::TempDir folder;
  const auto path = folder / "mine.json";
  write_file_atomic(path, "{\n}");
  try {
    load({path.string(), {}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("missing in " + path.string()));
  }
}

}  // namespace
}  // namespace osdn::config
