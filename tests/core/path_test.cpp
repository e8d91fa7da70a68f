#include "osdn/core/path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "support/temp_dir.h"

namespace osdn {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::string message_of(const std::function<void()>& action,
                       ExitCode expected_code) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), expected_code);
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

TEST(Path, looking_at_a_path_throws_nothing_and_listing_says_what_is_wrong) {
  const test::TempDir folder;
  fs::create_symlink(folder / "loop", folder / "loop");
  fs::create_directory(folder / "inner");
  write_file_atomic(folder / "b", "b");
  write_file_atomic(folder / "a", "a");
  EXPECT_TRUE(is_there(folder / "a"));
  EXPECT_TRUE(is_folder(folder / "inner"));
  EXPECT_FALSE(is_folder(folder / "a"));
  const fs::path long_name = folder / std::string(5000, 'x');
  for (const fs::path& path :
       {folder / "loop", folder / "gone", folder / "a/below", long_name}) {
    EXPECT_FALSE(is_there(path)) << path;
    EXPECT_FALSE(is_folder(path)) << path;
    EXPECT_THAT(message_of([&] { files_in(path); }, ExitCode::kBadInput),
                HasSubstr(path.string() + ": the folder cannot be listed: "));
  }
  EXPECT_THAT(
      files_in(folder.path()),
      testing::ElementsAre(folder / "a", folder / "b", folder / "loop"));
}

TEST(Path, where_no_file_can_be_made_is_told_beforehand) {
  const test::TempDir folder;
  write_file_atomic(folder / "a", "a");
  check_creatable(folder / "a");
  check_creatable(folder / "new");
  EXPECT_EQ(files_in(folder.path()).size(), 1U);
  EXPECT_EQ(read_file(folder / "a"), "a");
  for (const fs::path& path : {folder / "gone/x", folder / "a/x", folder.path(),
                               fs::path("/proc/x")}) {
    EXPECT_THAT(message_of([&] { check_creatable(path); }, ExitCode::kUsage),
                HasSubstr(path.string() + ": "));
  }
}

}  // namespace
}  // namespace osdn
