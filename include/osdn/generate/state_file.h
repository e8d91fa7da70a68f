#pragma once
// Sequences saved after a run, to be continued by another: docs/formats.md.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "osdn/generate/sampling.h"
#include "osdn/generate/sequence.h"

namespace osdn::generate {

/// What a saved state belongs to.
struct StateOwner {
  std::string model;           ///< folder, for messages
  std::string config_hash;     ///< SHA-256 of the model's configuration
  std::string weights_hash;    ///< XXH3-64 of its weights
  std::string tokenizer_hash;  ///< SHA-256 of the SentencePiece model
  std::string dtype;           ///< "fp32", "fp64"
};

struct SavedState {
  StateOwner owner;
  SamplingOptions sampling;
  std::vector<std::string> stops;
  std::vector<SequenceState> sequences;
};

/// A safetensors file that appears whole or not at all.
void save_state(const std::filesystem::path& path, const SavedState& saved);

/// Throws Error (kBadInput) naming the file for one that is no saved state, has
/// a later version or is damaged.
SavedState load_state(const std::filesystem::path& path);

/// Throws Error (kBadInput) saying what differs when the state belongs to
/// another model, other weights, another tokenizer or another dtype.
void check_owner(const StateOwner& saved, const StateOwner& now,
                 const std::filesystem::path& path);

}  // namespace osdn::generate
