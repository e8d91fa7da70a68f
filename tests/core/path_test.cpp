#include "osdn/core/path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <functional>
#include <string>

#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "support/message_of.h"
#include "support/temp_dir.h"

namespace osdn {
namespace {

namespace fs = std::filesystem;
using test::message_of;
using ::testing::HasSubstr;

TEST(Path, what_is_no_file_is_never_written_over) {
  const test::TempDir folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  fs::create_symlink(folder / "pipe", folder / "to_pipe");
  for (const char* name : {"pipe", "to_pipe"}) {
    EXPECT_THAT(
        message_of([&] { check_creatable(folder / name); }, ExitCode::kUsage),
        HasSubstr("is a device, pipe or socket"));
    EXPECT_THAT(message_of([&] { write_file_atomic(folder / name, "x"); },
                           ExitCode::kUsage),
                HasSubstr("is a device, pipe or socket"));
  }
  EXPECT_TRUE(fs::is_fifo(folder / "pipe"));
  EXPECT_TRUE(fs::is_symlink(folder / "to_pipe"));
}

TEST(Path, a_link_is_written_through) {
  const test::TempDir folder;
  fs::create_directory(folder / "far");
  fs::create_symlink(folder / "far" / "file", folder / "link");
  for (const char* text : {"new", "again"}) {  // dangling at first
    check_creatable(folder / "link");
    write_file_atomic(folder / "link", text);
    EXPECT_EQ(read_file(folder / "far" / "file"), text);
    EXPECT_TRUE(fs::is_symlink(folder / "link"));
  }
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

TEST(Path, a_folder_is_tried_where_it_would_be_made) {
  const test::TempDir folder;
  write_file_atomic(folder / "file", "x");
  for (const char* good : {"", "new", "new/", "new/and/deeper", "new/../x"}) {
    check_folder_creatable(folder / good);
  }
  EXPECT_FALSE(is_there(folder / "new"));
  EXPECT_EQ(files_in(folder.path()).size(), 1U);
  for (const char* bad : {"file", "file/", "file/in/it"}) {
    EXPECT_THAT(message_of([&] { check_folder_creatable(folder / bad); },
                           ExitCode::kUsage),
                HasSubstr("is no folder"))
        << bad;
  }
  EXPECT_THAT(
      message_of([] { check_folder_creatable("/proc/no"); }, ExitCode::kUsage),
      HasSubstr("no file can be made there"));
}

}  // namespace
}  // namespace osdn
