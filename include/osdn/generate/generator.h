#pragma once
// Many sequences through one model: prompts in large pieces, then one token of
// every sequence at a time.
//
// Sequences are packed side by side (cu_seqlens) and nothing is padded. The
// prompt without its last id is prefill: it needs no logits. From there on each
// step feeds one id of every sequence in the batch; those that finish leave it,
// waiting ones take their places.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "osdn/generate/sampling.h"
#include "osdn/generate/sequence.h"
#include "osdn/model/language_model.h"

namespace osdn::generate {

struct GeneratorOptions {
  SamplingOptions sampling{};
  std::int64_t max_new_tokens = 128;    ///< of each sequence; 0: prefill only
  std::int64_t batch = 32;              ///< sequences in one decoding step
  std::int64_t prefill_tokens = 2048;   ///< of one prefill pass
  std::vector<std::int32_t> end_ids{};  ///< each ends its sequence
  /// Ids from here on are never chosen: a padded vocabulary has no text there.
  std::int64_t usable_ids = 0;
  /// States and text that is held back stay in the sequences, to be saved.
  bool keep_states = false;
};

/// Where a document ends: at its end token, and at the begin token, which in
/// packed training data stands where another document begins.
std::vector<std::int32_t> end_ids(const tokenizer::Tokenizer& tokenizer);

/// Called once with the number of sequences, then with text as soon as it is
/// certain, and at the end of each sequence.
struct Listener {
  std::function<void(std::size_t count)> on_start{};
  std::function<void(const Sequence&, std::string_view text)> on_text{};
  std::function<void(const Sequence&)> on_finish{};
};

struct Figures {
  std::int64_t prefill_tokens = 0;
  double prefill_seconds = 0;
  std::int64_t decode_tokens = 0;  ///< chosen
  double decode_seconds = 0;
};

/// Runs all sequences that have not finished, in order, until they have, or
/// until `stop` says true (asked between two passes): those that have not
/// finished then are interrupted. The choice of a sequence's tokens depends on
/// the sequence alone, not on what else is in the batch.
Figures run(const model::LanguageModel& model, const GeneratorOptions& options,
            std::vector<Sequence>& sequences, const Listener& listener,
            const std::function<bool()>& stop);

}  // namespace osdn::generate
