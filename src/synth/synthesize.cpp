#include "osdn/synth/synthesize.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "osdn/core/nearest.h"
#include "osdn/core/ordered_workers.h"
#include "osdn/core/path.h"
#include "osdn/core/threads.h"
#include "osdn/report/progress.h"
#include "osdn/synth/haystack.h"
#include "osdn/synth/needles.h"
#include "osdn/synth/words.h"
#include "osdn/tokenizer/tokenizer.h"

namespace osdn::synth {
namespace {

using json = nlohmann::ordered_json;

/// The line of document `index`.
using LineOf = std::function<json(std::uint64_t index)>;

/// Everything that documents are made from, kept alive with its generator.
struct Sources {
  WordLists words;
  Essay essay;
  std::optional<tokenizer::Tokenizer> tokenizer;
  std::optional<NeedleGenerator> needles;
  std::optional<RecordGenerator> records;
};

LineOf mqar_lines(const SynthOptions& options) {
  check(options.mqar);
  return [options](std::uint64_t index) {
    const MqarDocument document =
        mqar_document(options.mqar, options.seed, index);
    return json{{"tokens", document.tokens}, {"labels", document.labels}};
  };
}

LineOf needle_lines(const SynthOptions& options, const NeedleTask& task,
                    const std::shared_ptr<Sources>& sources) {
  if (!sources->tokenizer) {
    throw Error(concat(task.name,
                       " needs a tokenizer (--tokenizer): its "
                       "length is counted in tokens"),
                ExitCode::kUsage);
  }
  sources->essay = read_essay(options.haystack);
  sources->needles.emplace(task, sources->words, sources->essay,
                           *sources->tokenizer, options.target_tokens,
                           options.seed);
  return [options, sources](std::uint64_t index) {
    const NeedleDocument d = sources->needles->document(index);
    return json{{"doc_id", concat(options.task, "-", index)},
                {"text", concat(d.prompt, " ", enumeration(d.answers), ".")},
                {"prompt", d.prompt},
                {"answers", d.answers},
                {"depths", d.depths},
                {"queries", d.queries},
                {"haystack", sources->needles->haystack()},
                {"n_tokens", d.tokens},
                {"seed", options.seed}};
  };
}

LineOf record_lines(const SynthOptions& options,
                    const std::shared_ptr<Sources>& sources) {
  sources->records.emplace(options.records, sources->words,
                           sources->tokenizer ? &*sources->tokenizer : nullptr,
                           options.seed);
  return [options, sources](std::uint64_t index) {
    const RecordDocument d = sources->records->document(index);
    json line{{"doc_id", concat("records-", index)},
              {"text", d.text},
              {"key", d.key},
              {"value", d.value},
              {"mode", name_of(options.records.mode)},
              {"depth", d.depth},
              {"n_records", d.records},
              {"pages", d.pages},
              {"n_tokens", nullptr},
              {"distractors", d.distractors},
              {"train_text", training_text(d)},
              {"seed", options.seed}};
    if (sources->tokenizer) line["n_tokens"] = d.tokens;
    return line;
  };
}

LineOf lines_of(const SynthOptions& options) {
  if (options.task == "mqar") return mqar_lines(options);
  const std::vector<NeedleTask>& needles = needle_tasks();
  const auto needle =
      std::find_if(needles.begin(), needles.end(),
                   [&](const NeedleTask& t) { return t.name == options.task; });
  if (needle == needles.end() && options.task != "records") {
    const auto close = nearest(options.task, synth_tasks());
    throw Error(concat("there is no generator '", options.task, "'",
                       close ? concat("; did you mean '", *close, "'?") : "",
                       " (mqar, records, niah_*: osdn-data synth --help)"),
                ExitCode::kUsage);
  }
  const auto sources = std::make_shared<Sources>();
  sources->words = word_lists(options.words, split_from_name(options.split));
  if (options.tokenizer) sources->tokenizer.emplace(*options.tokenizer);
  return needle == needles.end() ? record_lines(options, sources)
                                 : needle_lines(options, *needle, sources);
}

/// Options that a task reads beside those of all tasks.
std::vector<std::string> options_of(const SynthOptions& options) {
  if (options.task == "mqar") {
    return {"--vocab-size", "--length", "--pairs",
            "--power",      "--passes", "--random-non-queries"};
  }
  std::vector<std::string> names = {"--split", "--words", "--tokenizer"};
  if (options.task != "records") {
    names.emplace_back("--target-tokens");
    const std::vector<NeedleTask>& tasks = needle_tasks();
    const bool essay =
        std::any_of(tasks.begin(), tasks.end(), [&](const NeedleTask& task) {
          return task.name == options.task && task.hay == Hay::kEssay;
        });
    if (essay) names.emplace_back("--haystack");
    return names;
  }
  names.insert(names.end(), {"--mode", "--records"});
  if (!options.records.records) names.emplace_back("--tokens");
  if (options.records.mode == RecordMode::kSame ||
      options.records.mode == RecordMode::kUpdate) {
    names.emplace_back("--repeat");
  }
  return names;
}

void check_given(const SynthOptions& options) {
  std::vector<std::string> read = options_of(options);
  read.insert(read.end(), {"--output", "--seed", "--threads", "--overwrite"});
  for (const std::string& name : options.given) {
    if (std::find(read.begin(), read.end(), name) != read.end()) continue;
    throw Error(concat(name, " has no effect on ", options.task,
                       " with the other options as they are; leave it out"),
                ExitCode::kUsage);
  }
}

/// --overwrite is not meant for what the documents are made from.
void check_output(const SynthOptions& options) {
  std::vector<std::filesystem::path> inputs;
  for (const auto& input : {options.haystack, options.tokenizer}) {
    if (input) inputs.push_back(*input);
  }
  if (options.words) {
    inputs.push_back(*options.words / "nounlist.txt");
    inputs.push_back(*options.words / "adjectivelist.txt");
  }
  for (const std::filesystem::path& input : inputs) {
    std::error_code missing;
    if (!std::filesystem::equivalent(options.output, input, missing)) continue;
    throw Error(concat("--output is ", options.output.string(),
                       ", which is an input of this call; give it a name of "
                       "its own"),
                ExitCode::kUsage);
  }
}

std::size_t thread_count(std::int64_t asked) {
  if (asked < 0 || asked > kMaxThreads) {
    throw Error(concat("--threads is ", asked, "; expected 0 (all cores) to ",
                       kMaxThreads),
                ExitCode::kUsage);
  }
  return asked > 0 ? static_cast<std::size_t>(asked)
                   : std::max(1U, std::thread::hardware_concurrency());
}

}  // namespace

std::vector<std::string> synth_tasks() {
  std::vector<std::string> names = {"mqar"};
  for (const NeedleTask& task : needle_tasks()) names.push_back(task.name);
  names.push_back("records");
  return names;
}

void synthesize(const SynthOptions& options) {
  const std::size_t threads = thread_count(options.threads);
  if (options.documents < 1) {
    throw Error(concat("-n is ", options.documents, "; expected at least 1"),
                ExitCode::kUsage);
  }
  if (is_there(options.output) && !options.overwrite) {
    throw Error(concat(options.output.string(),
                       " is there already; --overwrite replaces it"),
                ExitCode::kUsage);
  }
  check_output(options);
  check_creatable(options.output);
  const LineOf line_of = lines_of(options);
  check_given(options);
  AtomicFile out(file_to_write(options.output));
  std::optional<report::Progress> progress;
  if (options.progress) {
    progress.emplace(report::ProgressOptions{.label = "synth " + options.task,
                                             .unit = " documents",
                                             .total = options.documents});
  }
  OrderedWorkers<std::int64_t, std::string> workers(
      threads, [&](std::int64_t&& index) {
        return line_of(static_cast<std::uint64_t>(index)).dump() + '\n';
      });
  std::int64_t next = 0;
  for (std::int64_t done = 0; done < options.documents; ++done) {
    while (next < options.documents && workers.pending() < 16 * threads) {
      workers.submit(next++);
    }
    out.file().write(workers.take());
    if (progress) progress->update(done + 1);
  }
  out.commit();
  if (progress) progress->finish();
}

}  // namespace osdn::synth
