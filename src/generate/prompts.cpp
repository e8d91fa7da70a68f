#include "osdn/generate/prompts.h"

#include <utility>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/utf8.h"
#include "osdn/data/text_reader.h"

namespace osdn::generate {
namespace {

void check(const std::string& prompt, const std::string& where) {
  if (prompt.empty()) {
    throw Error(where + " is empty; a prompt needs at least one character",
                ExitCode::kBadInput);
  }
  if (const auto at = first_invalid_utf8(prompt)) {
    throw Error(concat(where, " is not UTF-8: byte ", *at,
                       " begins no character; convert it to UTF-8"),
                ExitCode::kBadInput);
  }
}

void drop_line_end(std::string& text) {
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
}

std::vector<std::string> from_file(const PromptSource& source) {
  data::TextOptions options;
  data::set_split(options, source.split);
  options.field = source.field;
  data::TextReader reader(data::text_files({*source.file}), options);
  std::vector<std::string> prompts;
  while (const auto raw = reader.next()) {
    std::string prompt = reader.text_of(*raw);
    if (options.split == data::Split::kFile) drop_line_end(prompt);
    check(prompt, concat(reader.files()[raw->file].string(),
                         ": the prompt in line ", raw->line));
    prompts.push_back(std::move(prompt));
  }
  if (prompts.empty()) {
    throw Error(source.file->string() + " holds no prompt",
                ExitCode::kBadInput);
  }
  return prompts;
}

}  // namespace

std::vector<std::string> read_prompts(
    const PromptSource& source,
    const std::function<std::string()>& standard_input) {
  if (!source.texts.empty() && source.file) {
    throw Error("--prompt and --prompt-file contradict each other; give one",
                ExitCode::kUsage);
  }
  if (source.file) return from_file(source);
  std::vector<std::string> prompts = source.texts;
  if (prompts.empty()) {
    prompts.push_back(standard_input());
    drop_line_end(prompts.front());
    check(prompts.front(), "the prompt on standard input");
    return prompts;
  }
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    check(prompts[i], prompts.size() == 1 ? std::string("--prompt")
                                          : concat("--prompt number ", i + 1));
  }
  return prompts;
}

}  // namespace osdn::generate
