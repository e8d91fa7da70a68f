#pragma once
// A tokenizer from text files.

#include <filesystem>
#include <vector>

#include "osdn/data/text_reader.h"
#include "osdn/tokenizer/tokenizer.h"
#include "osdn/tokenizer/train.h"

namespace osdn::data {

struct TrainTokenizerOptions {
  std::vector<std::filesystem::path> inputs;  ///< as text_files()
  std::filesystem::path output;               ///< the .model file
  TextOptions text;
  tokenizer::TrainOptions train;
  bool overwrite = false;
  /// On stdout: a progress line while text is read, one before and one after
  /// the learning.
  bool progress = true;
};

/// Learns from all documents and writes the model, which appears complete or
/// not at all; returns it, read back. Throws Error (kUsage) when the output
/// exists and `overwrite` is not set, and all that TextReader and train() find.
tokenizer::Tokenizer train_tokenizer(const TrainTokenizerOptions& options);

}  // namespace osdn::data
