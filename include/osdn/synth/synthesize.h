#pragma once
// Generated documents as a file: what osdn-data synth does.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "osdn/synth/mqar.h"
#include "osdn/synth/records.h"

namespace osdn::synth {

/// "mqar", the eight needle tasks, "records".
std::vector<std::string> synth_tasks();

struct SynthOptions {
  std::string task{};
  std::filesystem::path output{};
  std::int64_t documents = 500;
  std::uint64_t seed = 1234;
  std::string split = "train";                       ///< of the words
  std::optional<std::filesystem::path> words{};      ///< else built-in
  std::optional<std::filesystem::path> haystack{};   ///< else generated
  std::optional<std::filesystem::path> tokenizer{};  ///< of lengths in tokens
  std::int64_t target_tokens = 4096;                 ///< of needle tasks
  MqarOptions mqar{};
  RecordOptions records{};
  std::int64_t threads = 0;  ///< 0: all cores
  bool overwrite = false;
  bool progress = true;
  /// Long names of the options that the user gave: each has to be read by the
  /// task.
  std::vector<std::string> given{};
};

/// Writes `documents` lines of JSON to `output`, which appears complete or not
/// at all. docs/synthetic_data.md lists the fields. A document depends on task,
/// its options, seed and index alone. Throws Error: kUsage for options,
/// kBadInput for files.
void synthesize(const SynthOptions& options);

}  // namespace osdn::synth
