#include "rolling_task.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/eval/perplexity.h"

namespace osdn::eval {
namespace {

Scores score(const std::vector<EvalDocument>& texts,
             std::span<const Answer> answers) {
  std::vector<ScoredDocument> documents;
  ScoredDocument all;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const ScoredDocument one{answers[i].log_likelihood, texts[i].words,
                             texts[i].bytes, answers[i].tokens};
    all.words += one.words;
    all.bytes += one.bytes;
    all.tokens += one.tokens;
    all.log_likelihood += one.log_likelihood;
    documents.push_back(one);
  }
  const nlohmann::json detail = {{"words", all.words},
                                 {"bytes", all.bytes},
                                 {"tokens", all.tokens},
                                 {"log_likelihood", all.log_likelihood}};
  Scores scores;
  for (const PerplexityMetric& metric : perplexities(documents)) {
    scores.metrics.push_back({metric.name, metric.value, metric.standard_error,
                              std::ssize(documents), detail.dump()});
  }
  return scores;
}

}  // namespace

std::vector<PreparedTask> rolling_task(const TaskContext& context,
                                       DataSet set) {
  if (set.documents.empty()) {
    throw Error("the data hold no document", ExitCode::kBadInput);
  }
  PreparedTask prepared;
  const bool full = context.options.rolling == "full" || !context.max_len;
  prepared.protocol = full ? "full" : "window";
  prepared.data = set.name;
  prepared.data_hash = set.hash;
  prepared.dropped = set.dropped;
  prepared.limited = set.limited;
  prepared.seed = kBootstrapSeed;
  prepared.batch.kind = RequestKind::kRolling;
  for (const EvalDocument& document : set.documents) {
    const std::int64_t index = std::ssize(prepared.batch.requests);
    prepared.batch.requests.push_back(
        {"", document.text, concat(set.name, ", document ", index), "", index});
  }
  for (EvalDocument& document : set.documents) document.text.clear();
  prepared.score =
      [texts = std::move(set.documents)](std::span<const Answer> answers) {
        return score(texts, answers);
      };
  std::vector<PreparedTask> all;
  all.push_back(std::move(prepared));
  return all;
}

}  // namespace osdn::eval
