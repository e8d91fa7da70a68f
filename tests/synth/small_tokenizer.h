#pragma once
// A tokenizer learnt from the generated haystack: words are a few tokens each.

#include <filesystem>
#include <fstream>

#include "osdn/synth/haystack.h"
#include "osdn/tokenizer/tokenizer.h"
#include "osdn/tokenizer/train.h"
#include "support/temp_dir.h"

namespace osdn::synth {

inline void write_small_tokenizer(const std::filesystem::path& path) {
  tokenizer::TrainOptions options;
  options.vocab_size = 400;
  bool first = true;
  const std::string model =
      tokenizer::train(options, [&first](std::string& text) {
        text = first_words(read_essay(std::nullopt), 3000);
        return std::exchange(first, false);
      });
  std::ofstream(path, std::ios::binary) << model;
}

/// One for all tests of the program.
inline const tokenizer::Tokenizer& small_tokenizer() {
  static const test::TempDir dir;
  static const tokenizer::Tokenizer tokenizer = [] {
    write_small_tokenizer(dir / "small.model");
    return tokenizer::Tokenizer(dir / "small.model");
  }();
  return tokenizer;
}

}  // namespace osdn::synth
