#pragma once
// A training run small enough for tests: shards, configuration, logs. No
// LibTorch here.

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "osdn/config/config.h"
#include "osdn/core/error.h"
#include "osdn/report/step_log.h"
#include "osdn/train/run.h"
#include "support/temp_dir.h"

namespace osdn::test {

inline constexpr std::int64_t kVocab = 40;

/// Documents of a small language with a rule that can be learnt, ids in [0,
/// kVocab), lengths 2 to 25; the same for the same seed.
std::vector<std::vector<std::int32_t>> tiny_documents(std::uint64_t seed,
                                                      int count);
void write_shard(const std::filesystem::path& path,
                 const std::vector<std::vector<std::int32_t>>& documents);

/// A folder with train.tokens and validation.tokens and a configuration for
/// them: 1 layer of OSDN-APF, 12 steps, an epoch ends within.
class TinyRun {
 public:
  explicit TinyRun(int documents = 40);

  /// JSON that may be changed before use.
  nlohmann::json json;

  std::filesystem::path run_dir(const std::string& name = "run") const {
    return folder_ / name;
  }
  std::filesystem::path folder() const { return folder_.path(); }
  /// For the run folder of that name, with "a.b=c" overrides.
  config::Config config(const std::string& name = "run",
                        const std::vector<std::string>& overrides = {}) const;
  train::RunRequest request(
      const std::string& name = "run",
      const std::vector<std::string>& overrides = {}) const;
  /// As a file, for the program.
  std::filesystem::path config_file(const std::string& name = "run") const;
  std::vector<report::StepRecord> log(const std::string& name = "run") const;
  std::vector<std::int64_t> saved_steps(const std::string& name = "run") const;

 private:
  TempDir folder_;
};

/// What has to be the same bit for bit in two runs, one line a step.
std::vector<std::string> fingerprints(
    const std::vector<report::StepRecord>& log, bool with_validation = true);

/// Messages of the log while it lives, one a line, level first.
class LogCapture {
 public:
  LogCapture();
  ~LogCapture();
  std::string text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The message of the Error that `body` throws; a failure if it throws none.
std::string error_of(const std::function<void()>& body,
                     ExitCode expected = ExitCode::kUsage);

}  // namespace osdn::test
