#pragma once
// Learns a SentencePiece model from text.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "osdn/tokenizer/sentence_sample.h"

namespace osdn::tokenizer {

enum class Algorithm { kUnigram, kBpe };

/// "unigram" or "bpe"; throws Error (kUsage) naming these otherwise.
Algorithm algorithm_from_name(std::string_view name);

/// The vocabulary holds <unk> 0, <s> 1, </s> 2, with byte_fallback the 256
/// bytes from 3 on, then the learnt pieces. Text is neither normalised nor
/// stripped, so decode(encode(text)) is the text.
struct TrainOptions {
  Algorithm algorithm = Algorithm::kUnigram;
  std::int32_t vocab_size = 8000;
  /// Share of the characters that get a piece of their own; the rare rest is
  /// spelt in bytes (or is <unk> without byte_fallback).
  double character_coverage = 0.9995;
  bool byte_fallback = true;
  bool split_digits = true;            ///< no piece holds two digits
  std::int32_t max_piece_length = 16;  ///< in code points
  SampleOptions sample;
};

/// What a tokenizer is about to be learnt from.
struct SampleSize {
  std::int64_t seen = 0;   ///< sentences of the texts
  std::int64_t kept = 0;   ///< of these, in the sample
  std::int64_t bytes = 0;  ///< of the sample
};

/// Learns from the texts that `next_text` hands out until it returns false, and
/// returns the content of the .model file. The same texts and options give the
/// same bytes, on any number of cores. Only the sample of sentences is kept in
/// memory. `on_sample` is called between the two long parts of the work, when
/// all texts are read and learning begins. Throws Error (kUsage) for options
/// that cannot be met by the text, among them a vocabulary larger than the text
/// can fill.
std::string train(const TrainOptions& options,
                  const std::function<bool(std::string&)>& next_text,
                  const std::function<void(const SampleSize&)>& on_sample = {});

}  // namespace osdn::tokenizer
