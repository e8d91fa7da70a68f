// Recall on generated records, asked and scored like the FDA set of JRT.

#include <bit>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "generated_text.h"
#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/eval/jrt.h"
#include "osdn/eval/means.h"
#include "osdn/eval/task_data.h"
#include "osdn/synth/records.h"
#include "recall_protocol.h"
#include "recall_scores.h"

namespace osdn::eval {
namespace {

constexpr std::int64_t kDocuments = 500;
constexpr std::int64_t kDepths = 10;

/// What the scores need of each document.
struct Asked {
  std::vector<std::vector<std::string>> labels;
  std::vector<std::vector<std::string>> distractors;
  std::vector<double> depths;
  std::vector<std::int64_t> records;
};

/// A JSON array: contains for documents of so many records, in doublings.
nlohmann::ordered_json by_records(const std::vector<double>& hits,
                                  const std::vector<std::int64_t>& records) {
  std::map<std::int64_t, std::pair<std::int64_t, double>> groups;
  for (std::size_t i = 0; i < hits.size(); ++i) {
    auto& [n, sum] = groups[static_cast<std::int64_t>(
        std::bit_floor(static_cast<std::uint64_t>(records[i])))];
    ++n;
    sum += hits[i];
  }
  auto rows = nlohmann::ordered_json::array();
  for (const auto& [from, group] : groups) {
    rows.push_back(
        {{"records_from", from},
         {"records_to", 2 * from - 1},
         {"n", group.first},
         {"contains", group.second / static_cast<double>(group.first)}});
  }
  return rows;
}

Scores score(std::span<const Answer> answers, const Asked& asked) {
  const std::vector<double> hits = contains_scores(answers, asked.labels);
  const std::vector<double> wrong = contains_scores(answers, asked.distractors);
  std::vector<AtDepth> depths;
  for (std::size_t i = 0; i < hits.size(); ++i) {
    depths.push_back({asked.depths[i], hits[i]});
  }
  Metric contains = mean_metric("contains", hits);
  contains.detail =
      nlohmann::ordered_json{
          {"by_depth", nlohmann::ordered_json::parse(
                           by_depth("contains", depths, kDepths))},
          {"by_records", by_records(hits, asked.records)}}
          .dump();
  return {{std::move(contains), mean_metric("distractor", wrong)}, hits};
}

/// Documents of one size.
struct Size {
  std::string name;
  synth::RecordOptions options;
};

std::vector<Size> sizes_of(const GeneratedTaskOptions& options) {
  synth::RecordOptions records;
  records.mode = synth::record_mode_from_name(options.mode);
  records.tokens = options.record_tokens;
  records.repeat = options.repeat;
  if (options.records.empty()) return {{"records", records}};
  std::vector<Size> sizes;
  for (const std::int64_t count : options.records) {
    records.records = count;
    sizes.push_back({concat("records_", count), records});
  }
  return sizes;
}

std::string settings_of(const Size& size, const RecallProtocol& protocol,
                        const EvalOptions& options) {
  nlohmann::ordered_json settings = {
      {"mode", synth::name_of(size.options.mode)}};
  if (size.options.records) {
    settings["records"] = *size.options.records;
  } else {
    settings["tokens"] = size.options.tokens;
  }
  if (size.options.mode == synth::RecordMode::kSame ||
      size.options.mode == synth::RecordMode::kUpdate) {
    settings["repeat"] = size.options.repeat;
  }
  const auto more = recall_settings(protocol, JrtSet::kFda, options);
  if (!more.is_null()) settings.update(more);
  return settings.dump();
}

PreparedTask prepare_size(const TaskContext& context, const Size& size,
                          const RecallProtocol& protocol,
                          const synth::WordLists& words) {
  const EvalOptions& options = context.options;
  const std::uint64_t seed = options.seed.value_or(kGeneratorSeed);
  const synth::RecordGenerator generator(
      size.options, words,
      size.options.records ? context.tokenizer : &context.need_tokenizer(),
      seed);
  PreparedTask task;
  task.name = size.name;
  task.protocol = protocol.name;
  task.data = concat("generated, ", synth::name_of(size.options.mode),
                     words_text(words));
  task.data_hash = hash_of_files(words.files);
  task.settings = settings_of(size, protocol, options);
  task.seed = seed;
  task.batch = recall_batch(protocol, options);
  Asked asked;
  LeftOut left_out;
  const std::int64_t count = document_count(options, kDocuments, task);
  for (std::int64_t i = 0; i < count; ++i) {
    synth::RecordDocument d = generator.document(static_cast<std::uint64_t>(i));
    JrtDocument document;
    const std::string place = concat(size.name, " document ", i);
    document.place = place;
    document.text = d.text;
    document.key = d.key;
    document.value = d.value;
    std::optional<std::string> prompt =
        recall_prompt(protocol, JrtSet::kFda, context, std::move(document));
    if (!prompt) {
      left_out.add(place, task);
      continue;
    }
    task.batch.requests.push_back(
        {.context = std::move(*prompt), .place = place, .label = d.value});
    asked.labels.push_back({d.value});
    asked.distractors.push_back(std::move(d.distractors));
    asked.depths.push_back(d.depth);
    asked.records.push_back(d.records);
  }
  left_out.warn(size.name, task);
  task.score = [asked = std::move(asked)](std::span<const Answer> answers) {
    return score(answers, asked);
  };
  return task;
}

std::vector<PreparedTask> prepare(const TaskContext& context) {
  const std::vector<RecallProtocol> protocols = recall_protocols(context);
  const synth::WordLists words =
      synth::word_lists(context.options.generated.words, synth::Split::kTest);
  std::vector<PreparedTask> all;
  for (const Size& size : sizes_of(context.options.generated)) {
    for (const RecallProtocol& protocol : protocols) {
      all.push_back(prepare_size(context, size, protocol, words));
    }
  }
  return all;
}

std::vector<std::string> options_read(const EvalOptions& options) {
  std::vector<std::string> names = {"--documents", "--seed", "--words",
                                    "--mode", "--records"};
  const GeneratedTaskOptions& generated = options.generated;
  if (generated.records.empty()) names.emplace_back("--record-tokens");
  if (generated.mode == "same" || generated.mode == "update") {
    names.emplace_back("--repeat");
  }
  add_recall_options(options, "once", names);
  return names;
}

}  // namespace

std::vector<TaskDefinition> records_tasks() {
  return {{{"records", "",
            "contains: the value is in the output, by depth and number of "
            "records; distractor: another record's value is",
            "nothing; a tokenizer, unless --records fixes the number of "
            "records; --words FOLDER replaces what is built in",
            "", "contains", false,
            protocol_names({RecallProtocol::kWhole, RecallProtocol::kJrt,
                            RecallProtocol::kOsdnAuthors})},
           prepare,
           options_read}};
}

}  // namespace osdn::eval
