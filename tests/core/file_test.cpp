#include "osdn/core/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <string>

#include "osdn/core/error.h"
#include "support/message_of.h"
#include "support/temp_dir.h"

namespace osdn {
namespace {

using test::message_of;
using ::testing::HasSubstr;

TEST(File, what_is_written_is_read) {
  const test::TempDir folder;
  const auto path = folder / "a";
  File out = File::create(path);
  out.write("hello ");
  out.write("world");
  out.write_at(0, "J", 1);
  EXPECT_EQ(out.size(), 11U);
  out.sync();
  out.close();
  EXPECT_FALSE(out.is_open());
  EXPECT_EQ(read_file(path), "Jello world");
  EXPECT_EQ(size_of_file(path), 11U);

  File in = File::open_read(path);
  char buffer[32] = {};
  EXPECT_EQ(in.read(buffer, 5), 5U);
  EXPECT_EQ(std::string(buffer, 5), "Jello");
  EXPECT_EQ(in.read(buffer, sizeof(buffer)), 6U);
  EXPECT_EQ(in.read(buffer, sizeof(buffer)), 0U);
  in.read_at(6, buffer, 5);
  EXPECT_EQ(std::string(buffer, 5), "world");
}

TEST(File, append_update_truncate) {
  const test::TempDir folder;
  const auto path = folder / "a";
  File::open_append(path).write("abc");
  File::open_append(path).write("def");
  File::open_update(path).truncate(4);
  EXPECT_EQ(read_file(path), "abcd");
}

TEST(File, moving_hands_the_descriptor_over) {
  const test::TempDir folder;
  File first = File::create(folder / "a");
  const int descriptor = first.descriptor();
  File second = std::move(first);
  EXPECT_EQ(second.descriptor(), descriptor);
  EXPECT_FALSE(first.is_open());
  second = File::create(folder / "b");
  EXPECT_EQ(second.path(), folder / "b");
}

TEST(File, errors_name_file_and_reason) {
  const test::TempDir folder;
  const auto missing = folder / "none";
  EXPECT_EQ(message_of([&] { read_file(missing); }, ExitCode::kBadInput),
            missing.string() +
                ": cannot be opened for reading: No such file or directory");
  EXPECT_THAT(
      message_of([&] { File::create(missing / "x"); }, ExitCode::kFailure),
      HasSubstr("cannot be written"));
  EXPECT_THAT(
      message_of([&] { read_file(folder.path()); }, ExitCode::kBadInput),
      HasSubstr("is a folder"));
}

TEST(File, C6_a_file_that_ends_early_is_an_error_with_the_offset) {
  const test::TempDir folder;
  const auto path = folder / "short";
  write_file_atomic(path, "0123456789");
  const File file = File::open_read(path);
  char buffer[8];
  EXPECT_THAT(
      message_of([&] { file.read_at(6, buffer, 8); }, ExitCode::kBadInput),
      HasSubstr("ends at offset 10, but 8 bytes were expected at "
                "offset 6"));
}

TEST(File, D5_offsets_beyond_four_gib) {
  const test::TempDir folder;
  const auto path = folder / "sparse";
  const std::uint64_t far = (std::uint64_t{1} << 32) + 17;
  File out = File::create(path);
  out.write_at(far, "end", 3);
  EXPECT_EQ(out.size(), far + 3);
  out.close();
  EXPECT_EQ(size_of_file(path), far + 3);
  char buffer[3];
  File::open_read(path).read_at(far, buffer, 3);
  EXPECT_EQ(std::string(buffer, 3), "end");
  const MappedFile mapped(path, MappedFile::Access::kRandom);
  EXPECT_EQ(mapped.size(), far + 3);
  EXPECT_EQ(static_cast<char>(mapped.data()[far]), 'e');
}

TEST(File, reads_files_whose_size_is_not_known) {
  EXPECT_THAT(read_file("/proc/self/status"), HasSubstr("Name:"));
}

TEST(AtomicFile, appears_on_commit_alone) {
  const test::TempDir folder;
  const auto path = folder / "a";
  {
    AtomicFile out(path);
    out.file().write("new");
    EXPECT_FALSE(std::filesystem::exists(path));
    out.commit();
  }
  EXPECT_EQ(read_file(path), "new");
  {
    AtomicFile abandoned(path);
    abandoned.file().write("half");
  }
  EXPECT_EQ(read_file(path), "new");
  const auto begin = std::filesystem::directory_iterator(folder.path());
  EXPECT_EQ(std::distance(begin, std::filesystem::directory_iterator()), 1)
      << "a temporary file was left";
}

TEST(AtomicFile, C2_a_write_that_fails_leaves_the_old_file) {
  const test::TempDir folder;
  const auto path = folder / "a";
  write_file_atomic(path, "old");
  // A limit on file sizes stands for a full disk: it needs no privileges.
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 4096;
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string message =
      message_of([&] { write_file_atomic(path, std::string(10000, 'x')); },
                 ExitCode::kFailure);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(message, HasSubstr("File too large"));
  EXPECT_EQ(read_file(path), "old");
  const auto begin = std::filesystem::directory_iterator(folder.path());
  EXPECT_EQ(std::distance(begin, std::filesystem::directory_iterator()), 1);
}

TEST(AtomicFile, two_writers_do_not_share_a_temporary_name) {
  const test::TempDir folder;
  const auto path = folder / "a";
  AtomicFile first(path);
  AtomicFile second(path);
  first.file().write("first");
  second.file().write("second");
  first.commit();
  EXPECT_EQ(read_file(path), "first");
  second.commit();
  EXPECT_EQ(read_file(path), "second");
}

TEST(File, rename_synced_and_sync_folder) {
  const test::TempDir folder;
  write_file_atomic(folder / "a", "x");
  std::filesystem::create_directory(folder / "sub");
  rename_synced(folder / "a", folder / "sub" / "b");
  EXPECT_EQ(read_file(folder / "sub" / "b"), "x");
  EXPECT_THAT(message_of([&] { rename_synced(folder / "a", folder / "c"); },
                         ExitCode::kFailure),
              HasSubstr("renaming"));
  EXPECT_THAT(
      message_of([&] { sync_folder(folder / "none"); }, ExitCode::kFailure),
      HasSubstr("the folder cannot be opened"));
}

TEST(MappedFile, shows_the_content) {
  const test::TempDir folder;
  write_file_atomic(folder / "a", "content");
  MappedFile mapped(folder / "a", MappedFile::Access::kSequential);
  EXPECT_EQ(mapped.size(), 7U);
  EXPECT_EQ(std::memcmp(mapped.data(), "content", 7), 0);
  const MappedFile moved = std::move(mapped);
  EXPECT_EQ(moved.bytes().size(), 7U);
  EXPECT_EQ(mapped.data(), nullptr);
}

TEST(MappedFile, empty_and_missing) {
  const test::TempDir folder;
  write_file_atomic(folder / "empty", "");
  const MappedFile mapped(folder / "empty");
  EXPECT_EQ(mapped.size(), 0U);
  EXPECT_TRUE(mapped.bytes().empty());
  EXPECT_THAT(
      message_of([&] { MappedFile(folder / "none"); }, ExitCode::kBadInput),
      HasSubstr("none: cannot be opened"));
}

}  // namespace
}  // namespace osdn
