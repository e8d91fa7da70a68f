// Multi-query associative recall (Arora et al. 2023) on generated integers: for
// models that were trained on such.

#include <ATen/ATen.h>

#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "generated_text.h"
#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/hash.h"
#include "osdn/eval/dummy_model.h"
#include "osdn/eval/means.h"
#include "osdn/eval/model_session.h"
#include "osdn/ops/to_device.h"
#include "osdn/synth/mqar.h"

namespace osdn::eval {
namespace {

constexpr std::int64_t kDocuments = 1000;
constexpr std::int64_t kTokensOfPass = 16384;

struct Size {
  std::int64_t length;
  std::int64_t pairs;
};

/// Those of Zoology's tests.
constexpr std::array<Size, 7> kSizes = {{{64, 4},
                                         {64, 8},
                                         {64, 16},
                                         {128, 32},
                                         {256, 64},
                                         {512, 128},
                                         {1024, 256}}};

Size parse_size(const std::string& text) {
  Size size{};
  const char* const end = text.data() + text.size();
  const auto length = std::from_chars(text.data(), end, size.length);
  if (length.ec == std::errc() && length.ptr != end && *length.ptr == ':') {
    const auto pairs = std::from_chars(length.ptr + 1, end, size.pairs);
    if (pairs.ec == std::errc() && pairs.ptr == end) return size;
  }
  throw Error(
      concat("--mqar-sizes has '", text, "'; expected length:pairs, as 64:4"),
      ExitCode::kUsage);
}

std::vector<Size> sizes_of(const GeneratedTaskOptions& options) {
  if (options.mqar_sizes.empty()) return {kSizes.begin(), kSizes.end()};
  std::vector<Size> sizes;
  for (const std::string& text : options.mqar_sizes) {
    sizes.push_back(parse_size(text));
  }
  return sizes;
}

using Documents = std::vector<synth::MqarDocument>;

/// Packed side by side: one answer a document, its output the number of labels
/// that are the most probable id at their position.
void answer(const ModelSession& session, const Documents& documents,
            std::int64_t vocab_size, std::span<const std::size_t> rows,
            const AnswerDone& done) {
  const model::LanguageModel& model = session.trained.model;
  if (model.config().vocab_size < vocab_size) {
    throw Error(
        concat("mqar has ids below ", vocab_size,
               ", the model a vocabulary of ", model.config().vocab_size,
               "; use --mqar-vocab, or a model trained for it"),
        ExitCode::kUsage);
  }
  std::vector<std::int64_t> tokens, labels, cu_seqlens{0};
  for (const std::size_t row : rows) {
    const synth::MqarDocument& d = documents[row];
    tokens.insert(tokens.end(), d.tokens.begin(), d.tokens.end());
    labels.insert(labels.end(), d.labels.begin(), d.labels.end());
    cu_seqlens.push_back(std::ssize(tokens));
  }
  const auto tensor = [&](const std::vector<std::int64_t>& values) {
    return ops::to_device(
        at::tensor(at::ArrayRef<std::int64_t>(values), at::kLong),
        model.device());
  };
  const ops::TokenScores scores = model.token_scores(
      {tensor(tokens), tensor(labels), ops::Documents(cu_seqlens)});
  const at::Tensor log_prob = scores.log_prob.cpu();
  const at::Tensor greedy = scores.greedy.cpu();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Answer found;
    std::int64_t right = 0;
    for (std::int64_t t = cu_seqlens[i]; t < cu_seqlens[i + 1]; ++t) {
      if (labels[static_cast<std::size_t>(t)] < 0) continue;
      ++found.tokens;
      found.log_likelihood += log_prob.data_ptr<double>()[t];
      right += greedy.data_ptr<bool>()[t] ? 1 : 0;
    }
    found.greedy = right == found.tokens;
    found.output = concat(right);
    done(rows[i], std::move(found));
  }
}

/// The dummy's: a label is the continuation of the ids up to it.
Answer dummy_answer_to(const synth::MqarDocument& document) {
  Answer found;
  Sha256 context;
  std::int64_t right = 0;
  for (std::size_t t = 0; t < document.tokens.size(); ++t) {
    context.update(concat(t > 0 ? " " : "", document.tokens[t]));
    if (document.labels[t] < 0) continue;
    const Answer one = dummy_answer(context, concat(document.labels[t]));
    ++found.tokens;
    found.log_likelihood += one.log_likelihood;
    right += one.greedy ? 1 : 0;
  }
  found.greedy = right == found.tokens;
  found.output = concat(right);
  return found;
}

/// All documents have the same number of labels, so that the mean of their
/// shares is the share of all.
Scores score(std::span<const Answer> answers) {
  std::vector<double> shares;
  for (const Answer& a : answers) {
    shares.push_back(std::stod(a.output) / static_cast<double>(a.tokens));
  }
  return {{mean_metric("accuracy", shares)}, shares};
}

std::string ids_text(const std::vector<std::int32_t>& ids) {
  std::string text;
  for (const std::int32_t id : ids) {
    text += concat(text.empty() ? "" : " ", id);
  }
  return text;
}

PreparedTask prepare_size(const TaskContext& context, const Size& size) {
  const EvalOptions& options = context.options;
  synth::MqarOptions mqar;
  mqar.vocab_size = options.generated.mqar_vocab;
  mqar.passes = options.generated.mqar_passes;
  mqar.length = size.length;
  mqar.pairs = size.pairs;
  check(mqar);
  PreparedTask task;
  task.seed = options.seed.value_or(kGeneratorSeed);
  task.protocol = concat(size.length, ":", size.pairs);
  task.data = "generated";
  task.settings = nlohmann::ordered_json{
      {"length", size.length},
      {"pairs", size.pairs},
      {"vocab_size", mqar.vocab_size},
      {"passes",
       mqar.passes}}.dump();
  task.batch.kind = RequestKind::kMeasure;
  task.max_len = size.length;
  task.measured_together = static_cast<std::size_t>(std::max<std::int64_t>(
      1, std::min(options.batch_tokens, kTokensOfPass) / size.length));
  auto documents = std::make_shared<Documents>();
  const std::int64_t count = document_count(options, kDocuments, task);
  for (std::int64_t i = 0; i < count; ++i) {
    documents->push_back(
        synth::mqar_document(mqar, *task.seed, static_cast<std::uint64_t>(i)));
    task.batch.requests.push_back(
        {.context = ids_text(documents->back().tokens),
         .place = concat("mqar ", task.protocol, " document ", i)});
  }
  task.measure = [documents, vocab = mqar.vocab_size](
                     const ModelSession& session,
                     std::span<const std::size_t> rows,
                     const AnswerDone& done) {
    answer(session, *documents, vocab, rows, done);
  };
  task.dummy = [documents](std::size_t row) {
    return dummy_answer_to((*documents)[row]);
  };
  task.score = score;
  return task;
}

std::vector<PreparedTask> prepare(const TaskContext& context) {
  std::vector<PreparedTask> all;
  for (const Size& size : sizes_of(context.options.generated)) {
    all.push_back(prepare_size(context, size));
  }
  return all;
}

}  // namespace

std::vector<TaskDefinition> mqar_tasks() {
  return {{{"mqar", "",
            "accuracy: the value is the most probable id at its key's query",
            "nothing, and no tokenizer; a model trained on such integers "
            "(osdn-data synth mqar)",
            "", "accuracy", true},
           prepare,
           always({"--documents", "--seed", "--mqar-sizes", "--mqar-vocab",
                   "--mqar-passes"})}};
}

}  // namespace osdn::eval
