#pragma once
// What tasks of generated text have in common.

#include <cstdint>
#include <string>
#include <vector>

#include "osdn/eval/task.h"
#include "osdn/synth/words.h"

namespace osdn::eval {

/// The score of each document, and of which part of the depth it is.
struct AtDepth {
  double depth = 0;  ///< 0 to 1
  double score = 0;
};

/// A JSON array, one object a part in which there are scores: `part` of
/// `parts`, from 0, n, and the mean under `metric`.
std::string by_depth(const std::string& metric,
                     const std::vector<AtDepth>& scores, std::int64_t parts);

/// The documents of a generated task: --documents, else `usual`; where --limit
/// cuts them the task is told. Throws Error (kUsage) for less than one.
std::int64_t document_count(const EvalOptions& options, std::int64_t usual,
                            PreparedTask& task);

/// ", words of NAME", or nothing for the built-in ones.
std::string words_text(const synth::WordLists& words);

/// Seed of all generated tasks, unless --seed gives one.
constexpr std::uint64_t kGeneratorSeed = 1234;

/// Labels for people: "a | b".
std::string joined_labels(const std::vector<std::string>& labels);

}  // namespace osdn::eval
