#pragma once
// Whole folders: a public model (config.json, model.safetensors or shards with
// an index) to an osdn checkpoint, and back. Both write into a folder aside and
// rename it when it is complete; a folder that exists and holds something is
// never written to (Error, kUsage).

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "osdn/core/tensor_view.h"
#include "osdn/interchange/hf_config.h"

namespace osdn::interchange {

struct FromHfOptions {
  std::filesystem::path from;
  std::filesystem::path to;
  std::string tokenizer{};  ///< goes into the configuration; may be empty
};

/// Writes config.json, model.safetensors (F32) and manifest.json, which
/// osdn-eval --model takes. max_position_embeddings becomes
/// data.context_length. Returns warnings.
std::vector<std::string> from_hf(const FromHfOptions& options);

struct ToHfOptions {
  std::filesystem::path from;  ///< run folder (newest sound checkpoint) or
                               ///< checkpoint folder
  std::filesystem::path to;
  std::uint64_t shard_bytes = 0;  ///< 0: one file
  ExportOptions config{};  ///< max_position_embeddings: the context length
};

/// Writes config.json and the weights. Returns the written files' names.
std::vector<std::string> to_hf(const ToHfOptions& options);

}  // namespace osdn::interchange
