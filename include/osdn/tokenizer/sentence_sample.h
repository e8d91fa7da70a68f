#pragma once
// The sentences that a tokenizer is learnt from: pieces of the texts, at most
// so many, so that a corpus of any size can be read through.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "osdn/core/random.h"

namespace osdn::tokenizer {

struct SampleOptions {
  /// Sentences kept; more are sampled uniformly (reservoir), 0 keeps all.
  std::int64_t max_sentences = 1'000'000;
  /// Longer sentences are cut, at a space where there is one.
  std::int64_t max_sentence_bytes = 4096;
  std::uint64_t seed = 42;
};

/// `text` cut at line ends, the lines cut to at most `max_bytes` bytes after
/// the last space that fits, else between two code points. No byte other than
/// the line ends is lost; empty lines give nothing. `max_bytes` is at least 4.
std::vector<std::string_view> split_sentences(std::string_view text,
                                              std::size_t max_bytes);

/// A uniform sample of all sentences of the texts, in the order in which they
/// came; a pure function of the texts and the options.
class SentenceSample {
 public:
  explicit SentenceSample(const SampleOptions& options);

  void add_text(std::string_view text);

  /// Sentences seen so far.
  std::int64_t seen() const { return seen_; }
  /// The sample; leaves this object empty.
  std::vector<std::string> take();

 private:
  struct Entry {
    std::int64_t index;
    std::string sentence;
  };

  SampleOptions options_;
  Xoshiro256 random_;
  std::int64_t seen_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace osdn::tokenizer
