// C2: a disk that is full, or a limit on file sizes, costs one checkpoint and
// nothing else.

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/sample_checkpoint.h"
#include "osdn/checkpoint/checkpoint_store.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "support/temp_dir.h"

namespace osdn::checkpoint {
namespace {

using osdn::test::TempDir;
using test::find_mixture;
using test::names_in;
using test::SampleCheckpoint;

constexpr int kSkip = 77;

// In a child, because limits and mounts hold for the whole process. Returns its
// exit code.
int in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(body());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// The child's assertion: says what was wrong, since gtest's own stay unseen.
bool good(bool condition, const std::string& what) {
  if (!condition) {
    std::fprintf(stderr, "in the child: %s\n", what.c_str());
  }
  return condition;
}

// Checkpoint 100 stands alone and sound.
bool only_100_is_left(const CheckpointStore& store) {
  const LatestCheckpoint latest = store.find_latest();
  return good(latest.found.has_value() && latest.found->step() == 100 &&
                  find_mixture(*latest.found).empty(),
              "checkpoint 100 is lost") &&
         good(names_in(store.folder()) ==
                  std::vector<std::string>{"step_000000100"},
              "a partial checkpoint is left");
}

SaveResult save_sample(CheckpointStore& store, std::int64_t step) {
  SampleCheckpoint sample(step);
  return store.save(step, sample.parts());
}

TEST(FullDisk, C2_a_limit_on_file_sizes_at_every_file) {
  const TempDir dir(TempDir::memory());
  const int code = in_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    CheckpointStore store(dir / "checkpoints", {.keep_last = 1});
    if (!good(save_sample(store, 100).saved(), "the first save")) {
      return 1;
    }
    // From "not a byte" to just below the largest file: each file of the
    // checkpoint, the manifest too, is the one that fails at some limit.
    const std::uint64_t largest =
        size_of_file(store.path_of(100) / "optimizer.safetensors");
    for (const std::uint64_t limit :
         {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{14},
          std::uint64_t{100}, std::uint64_t{4000}, std::uint64_t{9000},
          largest - 1}) {
      const rlimit tight{limit, RLIM_INFINITY};
      ::setrlimit(RLIMIT_FSIZE, &tight);
      const SaveResult result = save_sample(store, 200);
      const rlimit wide{RLIM_INFINITY, RLIM_INFINITY};
      ::setrlimit(RLIMIT_FSIZE, &wide);
      if (!good(result.status == SaveStatus::kFailed, "the save worked") ||
          !good(result.problem.find("step_000000200") != std::string::npos,
                "the problem names no file: " + result.problem) ||
          !only_100_is_left(store)) {
        return 1;
      }
    }
    return good(save_sample(store, 200).saved(), "the second try") ? 0 : 1;
  });
  EXPECT_EQ(code, 0);
}

TEST(FullDisk, C2_no_room_at_every_page) {
  const TempDir dir;
  const int code = in_child([&] {
    // A mount of our own, as root or as root of a user namespace.
    if (::unshare(CLONE_NEWNS) != 0 &&
        ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) {
      return kSkip;
    }
    const auto disk = dir / "disk";
    std::filesystem::create_directory(disk);
    ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
    if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=256k") != 0) {
      return kSkip;
    }
    CheckpointStore store(disk / "checkpoints", {.keep_last = 1});
    if (!good(save_sample(store, 100).saved(), "the first save")) {
      return 1;
    }
    const std::vector<char> page(4096, 'x');
    std::filesystem::create_directory(disk / "ballast");
    int failed = 0;
    // Fills the disk page by page; each time there is a little less room.
    for (int pages = 0;; ++pages) {
      const SaveResult result = save_sample(store, 200);
      if (result.saved()) {
        // Too much room still: back to the state before.
        std::filesystem::remove_all(store.folder());
        if (!good(save_sample(store, 100).saved(), "the save of 100")) {
          return 1;
        }
      } else {
        ++failed;
        if (!only_100_is_left(store) ||
            !good(
                result.problem.find(std::strerror(ENOSPC)) != std::string::npos,
                "another problem: " + result.problem)) {
          return 1;
        }
      }
      try {
        File ballast = File::create(disk / "ballast" / std::to_string(pages));
        ballast.write(page.data(), page.size());
      } catch (const Error&) {
        break;  // full to the last page
      }
    }
    std::filesystem::remove_all(disk / "ballast");
    return good(failed > 3, "the disk was never full") &&
                   good(save_sample(store, 200).saved(), "the last try")
               ? 0
               : 1;
  });
  if (code == kSkip) {
    GTEST_SKIP() << "no small tmpfs can be mounted here";
  }
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace osdn::checkpoint
