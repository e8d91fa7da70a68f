#include "sample_lines.h"

#include <nlohmann/json.hpp>

#include "osdn/core/hash.h"

namespace osdn::eval {

std::string sample_lines(const std::string& task, const PreparedTask& prepared,
                         std::span<const Answer> answers,
                         const Scores& scores) {
  using nlohmann::ordered_json;
  const RequestKind kind = prepared.batch.kind;
  std::string lines;
  if (kind == RequestKind::kMeasure && scores.rows.empty()) return lines;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const Request& request = prepared.batch.requests[i];
    ordered_json line = {{"task", task}};
    if (!prepared.protocol.empty()) line["protocol"] = prepared.protocol;
    line["index"] = i;
    line["prompt_hash"] = sha256(
        kind == RequestKind::kRolling ? request.continuation : request.context);
    line["place"] = request.place;
    line["tokens"] = answers[i].tokens;
    if (kind == RequestKind::kLikelihood || kind == RequestKind::kRolling) {
      line["log_likelihood"] = answers[i].log_likelihood;
      line["greedy"] = answers[i].greedy;
    } else {
      line["output"] = answers[i].output;
    }
    if (!request.label.empty()) line["label"] = request.label;
    if (!scores.rows.empty()) line["score"] = scores.rows.at(i);
    lines +=
        line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) +
        "\n";
  }
  return lines;
}

}  // namespace osdn::eval
