#pragma once
// One prompt and its continuation, as far as they have come.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "osdn/generate/text_stream.h"
#include "osdn/model/language_model.h"

namespace osdn::generate {

enum class Finish {
  kLength,       ///< "length": as many tokens as were asked for
  kEnd,          ///< "eos": the model ended the text
  kStop,         ///< "stop": a stop string
  kInterrupted,  ///< "interrupted": a signal
};
std::string_view name_of(Finish finish);
/// Inverse of name_of; nothing for another name.
std::optional<Finish> finish_from_name(std::string_view name);

/// Where a sequence stands: all that its next token depends on.
struct SequenceState {
  std::uint64_t index = 0;  ///< names its random stream
  std::int64_t fed = 0;     ///< ids that the model's state has seen
  std::int64_t drawn = 0;   ///< ids that were chosen: its place in that stream
  std::vector<std::int32_t> feed{};  ///< ids still to be fed, at least one
  std::vector<std::int32_t> seen{};  ///< ids that occurred, rising
  PendingText pending{};             ///< text that is not given out yet
  std::optional<Finish> finish{};
  model::ModelState state{};  ///< of one document; no layers: its start
};

/// Adds ids to the sorted list of those that occurred.
void add_seen(std::vector<std::int32_t>& seen,
              std::span<const std::int32_t> ids);

/// A sequence in a run. `at.pending` is filled at the end only.
struct Sequence {
  SequenceState at;
  TextStream stream;
  std::int64_t prompt_tokens = 0;   ///< of this run's prompt
  std::vector<std::int32_t> ids{};  ///< chosen in this run
  std::string text{};               ///< given out in this run
};

}  // namespace osdn::generate
