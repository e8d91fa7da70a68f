#pragma once
// The texts that q_geo is measured on.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "osdn/eval/task.h"

namespace osdn::eval {

/// Texts with what a result says of them.
struct MeasuredTexts {
  std::vector<std::string> texts{};
  std::string protocol{};  ///< "window", "full" or "prompts"
  std::string data{}, data_hash{};
  std::optional<std::uint64_t> seed{};
  std::int64_t dropped = 0;
  bool limited = false;  ///< --limit left texts out
  /// Most tokens of one, and whether a begin token stands in front instead of
  /// the prefix; the first tokens are kept.
  std::optional<std::int64_t> max_tokens{};
};

/// eval.md 9: 16 prompts each, after a seeded shuffle, of the in-context recall
/// sets that a folder of --data holds, context written twice; with less than
/// all three of them also generated records. Any text where no folder of --data
/// has such a set.
MeasuredTexts q_geo_texts(const TaskContext& context);

}  // namespace osdn::eval
