#pragma once
// One call of osdn-generate: everything is checked, then the model is loaded,
// then it runs.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "osdn/generate/generator.h"

namespace osdn::generate {

/// Options of the program. What is absent has its default, or, with a saved
/// state, the value that was saved.
struct GenerateOptions {
  std::filesystem::path model{};                     ///< run or checkpoint
  std::optional<std::filesystem::path> tokenizer{};  ///< else the run's own
  std::vector<std::string> prompts{};  ///< none only with load_state

  std::optional<double> temperature{};
  std::optional<std::int64_t> top_k{};
  std::optional<double> top_p{};
  std::optional<double> repetition_penalty{};
  std::optional<std::uint64_t> seed{};
  std::optional<std::vector<std::string>> stops{};
  std::int64_t max_new_tokens = 128;

  std::string bos = "auto";            ///< "auto", "0", "1"
  std::string device = "auto";         ///< "auto", "cpu", "cuda"
  std::optional<std::string> dtype{};  ///< "auto", "fp32", "fp64", "bf16"
  std::int64_t batch = 32;
  std::int64_t prefill_tokens = 2048;
  std::int64_t threads = 0;  ///< 0: all cores
  std::optional<std::filesystem::path> save_state{};
  std::optional<std::filesystem::path> load_state{};
};

/// Everything about the options that can be said without any file. Throws Error
/// (kUsage).
void check_options(const GenerateOptions& options);

/// Throws Error for what is wrong with options, state, checkpoint, tokenizer or
/// prompts before the model is loaded. A sequence is known by its index: that
/// of its prompt, or that in the saved state.
Figures generate(const GenerateOptions& options, const Listener& listener,
                 const std::function<bool()>& stop);

}  // namespace osdn::generate
