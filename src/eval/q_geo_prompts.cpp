#include "q_geo_prompts.h"

#include <algorithm>
#include <utility>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/hash.h"
#include "osdn/core/log.h"
#include "osdn/core/path.h"
#include "osdn/core/random.h"
#include "osdn/eval/task_data.h"
#include "osdn/eval/task_table.h"
#include "osdn/eval/text_data.h"

namespace osdn::eval {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kShuffleSeed = 13;
constexpr std::size_t kPromptsASet = 16;
constexpr std::int64_t kPromptTokens = 1064;

const TaskDefinition* find_task(const std::string& name) {
  for (const TaskDefinition& task : task_table()) {
    if (task.info.name == name) return &task;
  }
  return nullptr;
}

/// The first of a shuffled set.
std::vector<std::string> chosen(const RequestBatch& batch) {
  std::vector<std::string> prompts;
  for (const Request& request : batch.requests) {
    prompts.push_back(request.context);
  }
  Xoshiro256 random(kShuffleSeed);
  for (std::size_t i = prompts.size(); i > 1; --i) {
    std::swap(prompts[i - 1], prompts[random.below(i)]);
  }
  prompts.resize(std::min(prompts.size(), kPromptsASet));
  return prompts;
}

/// Adds the prompts of one task and protocol; false where its data are not
/// there.
bool add_set(const TaskContext& context, const std::string& name,
             const std::string& protocol, MeasuredTexts& out) {
  const TaskDefinition* const task = find_task(name);
  if (!task) return false;
  EvalOptions options = context.options;
  options.protocol = protocol;
  options.data.limit.reset();
  // A set stands in a folder; a file is a text, whatever its name.
  std::erase_if(options.data.inputs,
                [](const fs::path& input) { return !is_folder(input); });
  try {
    const TaskContext own{task->info, options, kPromptTokens,
                          context.tokenizer};
    for (const PreparedTask& prepared : task->prepare(own)) {
      for (std::string& prompt : chosen(prepared.batch)) {
        out.texts.push_back(std::move(prompt));
      }
      out.data += concat(out.data.empty() ? "" : ",",
                         prepared.name.empty() ? name : prepared.name);
      out.data_hash += prepared.data_hash;
    }
    return true;
  } catch (const MissingData&) {
    return false;
  }
}

MeasuredTexts prompts(const TaskContext& context) {
  MeasuredTexts out;
  std::size_t sets = 0;
  for (const char* name : {"jrt_fda", "jrt_swde", "jrt_squad"}) {
    sets += add_set(context, name, "osdn-authors-twice", out) ? 1 : 0;
  }
  const std::vector<fs::path>& inputs = context.options.data.inputs;
  if (!inputs.empty() && sets == 0) return {};
  for (const fs::path& input : inputs) {
    if (is_folder(input)) continue;
    log::warn("q_geo is measured on ", out.data, " and does not read ",
              input.string(), "; give the text alone to measure it there");
  }
  if (sets < 3) add_set(context, "records", "twice", out);
  out.protocol = "prompts";
  out.seed = kShuffleSeed;
  out.max_tokens = kPromptTokens;
  if (!out.data_hash.empty()) out.data_hash = sha256(out.data_hash);
  if (context.options.data.limit) {
    const auto limit = static_cast<std::size_t>(*context.options.data.limit);
    out.limited = out.texts.size() > limit;
    out.texts.resize(std::min(out.texts.size(), limit));
  }
  return out;
}

MeasuredTexts any_text(const TaskContext& context) {
  DataSet set = read_text_documents(context.options.data);
  MeasuredTexts out;
  for (EvalDocument& document : set.documents) {
    out.texts.push_back(std::move(document.text));
  }
  const bool full = context.options.rolling == "full" || !context.max_len;
  out.protocol = full ? "full" : "window";
  out.data = set.name;
  out.data_hash = set.hash;
  out.dropped = set.dropped;
  out.limited = set.limited;
  return out;
}

}  // namespace

MeasuredTexts q_geo_texts(const TaskContext& context) {
  MeasuredTexts found = prompts(context);
  return found.texts.empty() ? any_text(context) : found;
}

}  // namespace osdn::eval
