// q_geo (q_geo.h) of whole prompts or texts, with its ablations.

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "osdn/config/reader.h"
#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/eval/model_session.h"
#include "osdn/eval/task.h"
#include "osdn/eval/window_batches.h"
#include "q_geo_json.h"
#include "q_geo_prompts.h"

namespace osdn::eval {
namespace {

using nlohmann::json;

/// Documents whose sums are one answer, the first one's.
constexpr std::size_t kDocumentsTogether = 16;

void check_model(const config::ModelConfig& config) {
  if (config.softmax_layers() < config.num_layers) return;
  throw Error(
      "q_geo measures what the delta rule writes, and every layer of the model "
      "is softmax attention; leave the task out",
      ExitCode::kUsage);
}

/// How texts become what the model reads.
struct Reading {
  std::vector<std::string> texts{};
  std::optional<std::int64_t> block{};       ///< tokens of one pass
  std::optional<std::int64_t> max_tokens{};  ///< the rest is left out
};

std::vector<WindowRequest> requests_of(const ModelSession& session,
                                       const Reading& reading,
                                       std::span<const std::size_t> rows) {
  std::vector<WindowRequest> all;
  for (const std::size_t row : rows) {
    std::vector<std::int32_t> tokens =
        session.need_tokenizer().encode(reading.texts[row]);
    if (reading.max_tokens && std::ssize(tokens) + 1 > *reading.max_tokens) {
      tokens.resize(static_cast<std::size_t>(*reading.max_tokens - 1));
    }
    for (WindowRequest& request :
         block_requests(static_cast<std::int64_t>(row), tokens, session.prefix,
                        reading.block)) {
      all.push_back(std::move(request));
    }
  }
  return all;
}

/// Where the documents of a pass stand.
std::vector<QGeoObserver::Place> places_of(
    const std::vector<WindowRequest>& requests, const PassPlace& pass) {
  std::vector<QGeoObserver::Place> places;
  for (std::size_t i = pass.first; i < requests.size(); ++i) {
    places.push_back({pass.offset, std::ssize(requests[i].input)});
  }
  return places;
}

void measure(const ModelSession& session, const Reading& reading,
             std::span<const std::size_t> rows, const AnswerDone& done) {
  check_model(session.trained.config.model);
  const auto requests = requests_of(session, reading, rows);
  QGeoObserver observer;
  const ObserverScope scope(session, observer);
  run_requests(
      session.trained.model, requests, session.batch_tokens,
      [](std::int64_t) {},
      [&](const PassPlace& pass) {
        observer.set_places(places_of(requests, pass));
      });
  json output = json::parse(to_text(observer.tables()));
  output["preconditioner"] =
      json::parse(config::to_json(session.trained.config))
          .at("model")
          .value("preconditioner", json());
  for (const std::size_t row : rows) {
    Answer answer;
    if (row == rows.front()) answer.output = output.dump();
    done(row, std::move(answer));
  }
}

Scores score(std::span<const Answer> answers) {
  QGeoTables tables;
  json preconditioner;
  for (const Answer& answer : answers) {
    if (answer.output.empty()) continue;
    tables.add(q_geo_tables_from(answer.output));
    preconditioner = json::parse(answer.output).at("preconditioner");
  }
  const QGeoSums s = tables.total();
  const auto n = static_cast<double>(s.count);
  Scores scores;
  const auto add = [&](const char* name, double value) {
    scores.metrics.push_back({name, value, std::nullopt, s.count, ""});
  };
  add("q_geo", std::exp(s.log_q / n));
  json detail = q_geo_detail(tables);
  if (tables.preconditioned) {
    detail["preconditioner"] = preconditioner;
    add("q_geo_ones", std::exp(s.log_q_ones / n));
    add("q_geo_mean", std::exp(s.log_q_mean / n));
    add("q_geo_flip", std::exp(s.log_q_flip / n));
  }
  scores.metrics.front().detail = detail.dump();
  add("mean_beta", s.beta / n);
  add("mean_d_k2", s.energy / n);
  add("mean_beta_d_k2", s.strength / n);
  add("mean_q", s.q / n);
  add("median_q", tables.median_q());
  add("share_q_above_1", static_cast<double>(s.above_one) / n);
  add("share_q_clamped", static_cast<double>(s.clamped) / n);
  return scores;
}

std::vector<PreparedTask> prepare(const TaskContext& context) {
  MeasuredTexts found = q_geo_texts(context);
  if (found.texts.empty()) {
    throw Error("the data hold no document", ExitCode::kBadInput);
  }
  PreparedTask prepared;
  prepared.protocol = found.protocol;
  prepared.data = found.data;
  prepared.data_hash = found.data_hash;
  prepared.seed = found.seed;
  prepared.dropped = found.dropped;
  prepared.limited = found.limited;
  prepared.batch.kind = RequestKind::kMeasure;
  for (const std::string& text : found.texts) {
    const std::int64_t index = std::ssize(prepared.batch.requests);
    prepared.batch.requests.push_back(
        {"", text, concat(found.data, ", text ", index), "", index});
  }
  Reading reading{std::move(found.texts), {}, found.max_tokens};
  if (found.protocol == "window") reading.block = context.max_len;
  prepared.max_len = found.max_tokens ? found.max_tokens : reading.block;
  prepared.measured_together = kDocumentsTogether;
  prepared.measure =
      [reading = std::move(reading)](
          const ModelSession& session, std::span<const std::size_t> rows,
          const AnswerDone& done) { measure(session, reading, rows, done); };
  prepared.score = score;
  std::vector<PreparedTask> all;
  all.push_back(std::move(prepared));
  return all;
}

}  // namespace

std::vector<TaskDefinition> q_geo_tasks() {
  return {{{"q_geo", "",
            "the share of a token's own squared error that its write leaves, "
            "and the same with d replaced",
            "--data FOLDER with sets of the group jrt, or any FILE or FOLDER "
            "of text",
            "any text; the sets of the group jrt", "q_geo"},
           prepare,
           // Those of records too, which stand in for sets that are missing.
           always({"--split", "--field", "--rolling", "--max-len",
                   "--context-length", "--answer-length", "--documents",
                   "--seed", "--words", "--mode", "--record-tokens",
                   "--records", "--repeat"})}};
}

}  // namespace osdn::eval
