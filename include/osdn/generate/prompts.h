#pragma once
// Where prompts come from.

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace osdn::generate {

struct PromptSource {
  std::vector<std::string> texts{};             ///< each a prompt
  std::optional<std::filesystem::path> file{};  ///< .txt, .jsonl, also .zst
  std::string split = "lines";                  ///< of .txt, as data::Split
  std::string field = "text";                   ///< of .jsonl
};

/// All prompts: the texts, those of the file, or, where neither is given, the
/// whole of what `standard_input` returns as one. A last line end of a whole
/// file or of standard input is no part of it. Throws Error naming the prompt
/// that is empty or not UTF-8, and when there is none.
std::vector<std::string> read_prompts(
    const PromptSource& source,
    const std::function<std::string()>& standard_input);

}  // namespace osdn::generate
