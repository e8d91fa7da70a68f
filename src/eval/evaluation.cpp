#include "osdn/eval/evaluation.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "osdn/config/reader.h"
#include "osdn/core/concat.h"
#include "osdn/core/hash.h"
#include "osdn/eval/perplexity.h"
#include "osdn/eval/q_geo.h"
#include "osdn/eval/request_hash.h"
#include "osdn/eval/tasks.h"
#include "osdn/eval/window_batches.h"
#include "osdn/model/trained_model.h"
#include "osdn/ops/compute_choice.h"
#include "osdn/ops/gpu.h"
#include "osdn/ops/threads.h"
#include "osdn/report/progress.h"
#include "osdn/tokenizer/tokenizer.h"

namespace osdn::eval {
namespace {

using nlohmann::json;

/// Everything that the tasks share.
struct Session {
  const EvalOptions& options;
  ops::ComputeChoice compute;
  model::TrainedModel trained;
  tokenizer::Tokenizer tokenizer;
  std::optional<std::int64_t> max_len;
  std::int32_t prefix = 0;
  bool double_bos = false;  ///< --bos 1: t starts with the begin token as well
};

ops::ComputeChoice compute_of(const EvalOptions& options) {
  return ops::choose_compute(options.device, options.dtype,
                             {"--device", "--dtype"});
}

void check_choice(const char* option, const std::string& value,
                  const std::vector<std::string>& choices) {
  std::string list;
  for (const std::string& choice : choices) {
    if (choice == value) return;
    list += (list.empty() ? "" : ", ") + choice;
  }
  throw Error(concat(option, " is '", value, "'; expected one of ", list),
              ExitCode::kUsage);
}

void check_at_least(const char* option, std::int64_t value,
                    std::int64_t least) {
  if (value >= least) return;
  throw Error(concat(option, " is ", value, "; expected ", least, " or more"),
              ExitCode::kUsage);
}

/// A number, or nothing for "none" and "".
std::optional<std::int64_t> parse_max_len(const std::string& text) {
  if (text.empty() || text == "none") return std::nullopt;
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end || value < 1) {
    throw Error(
        concat("--max-len is '", text, "'; give a number from 1, or none"),
        ExitCode::kUsage);
  }
  return value;
}

void check_options(const EvalOptions& options) {
  check_tasks(options.tasks);
  compute_of(options);
  check_choice("--bos", options.bos, {"protocol", "0", "1"});
  check_choice("--rolling", options.rolling, {"window", "full"});
  check_at_least("--batch-tokens", options.batch_tokens, 1);
  ops::check_threads("--threads", options.threads);
  if (options.data.limit) check_at_least("--limit", *options.data.limit, 1);
  if (parse_max_len(options.max_len) && options.rolling == "full") {
    throw Error(concat("--rolling full has no window, and --max-len is ",
                       options.max_len, "; leave one of them out"),
                ExitCode::kUsage);
  }
}

tokenizer::Tokenizer open_tokenizer(const EvalOptions& options,
                                    const config::Config& config) {
  if (!options.tokenizer && config.data.tokenizer.empty()) {
    throw Error(
        "the run names no tokenizer (data.tokenizer); give one with "
        "--tokenizer",
        ExitCode::kUsage);
  }
  tokenizer::Tokenizer tokenizer(
      options.tokenizer.value_or(config.data.tokenizer));
  tokenizer.check_fits(config.model.vocab_size);
  return tokenizer;
}

Session open_session(const EvalOptions& options) {
  const ops::ComputeChoice compute = compute_of(options);
  model::TrainedModel trained =
      model::load_trained_model(options.model, compute.dtype, compute.device);
  tokenizer::Tokenizer tokenizer = open_tokenizer(options, trained.config);
  const auto bos = tokenizer.bos_id();
  const auto prefix = bos ? bos : tokenizer.eos_id();
  if (!prefix || (options.bos == "1" && !bos)) {
    throw Error(
        concat("tokenizer ", tokenizer.path().string(), " defines no begin ",
               prefix ? "token, so there is no --bos 1"
                      : "and no end token; rolling perplexity needs one in "
                        "front of the first token"),
        ExitCode::kBadInput);
  }
  std::optional<std::int64_t> max_len = parse_max_len(options.max_len);
  if (options.max_len.empty() && options.rolling == "window") {
    max_len = trained.config.data.context_length;
  }
  return {options, compute, std::move(trained), std::move(tokenizer),
          max_len, *prefix, options.bos == "1"};
}

/// A task's texts as the model reads them.
struct TaskInput {
  std::vector<WindowRequest> requests{};
  std::vector<std::int64_t> tokens{};  ///< scored, by document
  std::string requests_hash{};
  std::int64_t input_tokens() const {
    std::int64_t count = 0;
    for (const WindowRequest& request : requests) {
      count += static_cast<std::int64_t>(request.input.size());
    }
    return count;
  }
};

TaskInput make_input(const Session& session, const DataSet& set,
                     const decltype(window_requests)& cut) {
  TaskInput input;
  RequestHash hash;
  for (std::size_t i = 0; i < set.documents.size(); ++i) {
    const std::string& text = set.documents[i].text;
    hash.add("", text);
    std::vector<std::int32_t> tokens = session.tokenizer.encode(text);
    if (session.double_bos) tokens.insert(tokens.begin(), session.prefix);
    input.tokens.push_back(static_cast<std::int64_t>(tokens.size()));
    for (WindowRequest& request : cut(static_cast<std::int64_t>(i), tokens,
                                      session.prefix, session.max_len)) {
      input.requests.push_back(std::move(request));
    }
  }
  input.requests_hash = hash.hex();
  return input;
}

/// Calls `run` with a function that moves the progress line of the task.
template <typename Run>
auto with_progress(const std::string& task, const TaskInput& input,
                   const Run& run) {
  report::Progress progress({.label = task,
                             .unit = " tokens",
                             .total = input.input_tokens(),
                             .stream = Stream::kStderr});
  return run([&](std::int64_t tokens) {
    progress.update(tokens);
    if (tokens == input.input_tokens()) progress.finish();
  });
}

/// The fields that all results of one task share.
Result result_base(const Session& session, const std::string& task,
                   const DataSet& set, const TaskInput& input) {
  Result r;
  r.task = task;
  r.n = static_cast<std::int64_t>(set.documents.size());
  r.protocol = session.max_len ? "window" : "full";
  r.model = session.trained.folder.string();
  r.model_config_hash = session.trained.config_hash;
  r.weights_hash = session.trained.weights_hash;
  r.tokenizer = session.tokenizer.path().filename().string();
  r.tokenizer_hash = session.tokenizer.sha256();
  r.data = set.name;
  r.data_hash = set.hash;
  r.requests_hash = input.requests_hash;
  r.bos = session.double_bos;
  r.max_len = session.max_len;
  r.dropped = set.dropped;
  r.dtype = session.compute.dtype_name;
  r.batch_tokens = session.options.batch_tokens;
  r.limit = session.options.data.limit;
  return r;
}

std::string sample_lines(const std::string& task, const DataSet& set,
                         const std::vector<ScoredDocument>& scored) {
  std::string lines;
  for (std::size_t i = 0; i < scored.size(); ++i) {
    const ScoredDocument& d = scored[i];
    const nlohmann::ordered_json line = {
        {"task", task},
        {"index", i},
        {"prompt_hash", sha256(set.documents[i].text)},
        {"tokens", d.tokens},
        {"words", d.words},
        {"bytes", d.bytes},
        {"log_likelihood", d.log_likelihood}};
    lines += line.dump() + "\n";
  }
  return lines;
}

void run_perplexity(const Session& session, const std::string& task,
                    const DataSet& set, Evaluation& out) {
  const TaskInput input = make_input(session, set, window_requests);
  const std::vector<double> sums =
      with_progress(task, input, [&](const TokensDone& done) {
        return score_requests(session.trained.model, input.requests,
                              session.options.batch_tokens, done);
      });
  std::vector<ScoredDocument> documents;
  for (std::size_t i = 0; i < set.documents.size(); ++i) {
    documents.push_back(
        {0, set.documents[i].words, set.documents[i].bytes, input.tokens[i]});
  }
  for (std::size_t i = 0; i < sums.size(); ++i) {
    documents[static_cast<std::size_t>(input.requests[i].document)]
        .log_likelihood += sums[i];
  }
  ScoredDocument all;
  for (const ScoredDocument& d : documents) {
    all.words += d.words;
    all.bytes += d.bytes;
    all.tokens += d.tokens;
    all.log_likelihood += d.log_likelihood;
  }
  const json detail = {{"words", all.words},
                       {"bytes", all.bytes},
                       {"tokens", all.tokens},
                       {"windows", input.requests.size()},
                       {"log_likelihood", all.log_likelihood}};
  for (const PerplexityMetric& metric : perplexities(documents)) {
    Result r = result_base(session, task, set, input);
    r.metric = metric.name;
    r.value = metric.value;
    r.stderr_ = metric.standard_error;
    if (r.stderr_) r.seed = kBootstrapSeed;
    r.detail = detail.dump();
    out.results.push_back(std::move(r));
  }
  out.samples += sample_lines(task, set, documents);
}

json q_geo_row(const QGeoSums& s, bool preconditioned) {
  const auto n = static_cast<double>(s.count);
  json row = {{"q_geo", std::exp(s.log_q / n)}, {"mean_beta", s.beta / n}};
  if (preconditioned) {
    row["q_geo_ones"] = std::exp(s.log_q_ones / n);
    row["q_geo_mean"] = std::exp(s.log_q_mean / n);
    row["q_geo_flip"] = std::exp(s.log_q_flip / n);
  }
  return row;
}

/// The measure by layer, and by layer and head.
json q_geo_detail(const Session& session, const QGeoObserver& observer,
                  const TaskInput& input) {
  json detail = {{"tokens", input.input_tokens()},
                 {"layers", json::array()},
                 {"heads", json::array()}};
  std::map<std::int64_t, QGeoSums> layers;
  for (const QGeoObserver::Head& head : observer.heads()) {
    layers[head.layer].add(head.sums);
    json row = q_geo_row(head.sums, observer.preconditioned());
    row["layer"] = head.layer;
    row["head"] = head.head;
    detail["heads"].push_back(std::move(row));
  }
  for (const auto& [layer, sums] : layers) {
    json row = q_geo_row(sums, observer.preconditioned());
    row["layer"] = layer;
    detail["layers"].push_back(std::move(row));
  }
  if (observer.preconditioned()) {
    const json config =
        json::parse(config::to_json(session.trained.config)).at("model");
    detail["preconditioner"] = config.at("preconditioner");
  }
  return detail;
}

void run_q_geo(Session& session, const DataSet& set, Evaluation& out) {
  const config::ModelConfig& model = session.trained.config.model;
  if (model.softmax_layers() == model.num_layers) {
    throw Error(
        "q_geo measures what the delta rule writes, and every layer of the "
        "model is softmax attention; leave the task out",
        ExitCode::kUsage);
  }
  const TaskInput input = make_input(session, set, block_requests);
  if (input.requests.empty()) {
    throw Error("the data hold no document", ExitCode::kBadInput);
  }
  QGeoObserver observer;
  session.trained.model.observe(&observer);
  with_progress("q_geo", input, [&](const TokensDone& done) {
    run_requests(session.trained.model, input.requests,
                 session.options.batch_tokens, done);
  });
  session.trained.model.observe(nullptr);

  const QGeoSums s = observer.total();
  const auto n = static_cast<double>(s.count);
  const auto add = [&](const char* name, double value) {
    Result r = result_base(session, "q_geo", set, input);
    r.metric = name;
    r.value = value;
    r.n = s.count;
    if (r.metric == "q_geo") {
      r.detail = q_geo_detail(session, observer, input).dump();
    }
    out.results.push_back(std::move(r));
  };
  add("q_geo", std::exp(s.log_q / n));
  if (observer.preconditioned()) {
    add("q_geo_ones", std::exp(s.log_q_ones / n));
    add("q_geo_mean", std::exp(s.log_q_mean / n));
    add("q_geo_flip", std::exp(s.log_q_flip / n));
  }
  add("mean_beta", s.beta / n);
  add("mean_d_k2", s.energy / n);
  add("mean_beta_d_k2", s.strength / n);
  add("mean_q", s.q / n);
  add("median_q", observer.median_q());
  add("share_q_above_1", static_cast<double>(s.above_one) / n);
  add("share_q_clamped", static_cast<double>(s.clamped) / n);
}

void run_task(Session& session, const std::string& task, Evaluation& out) {
  const DataOptions& data = session.options.data;
  if (task == "wikitext") {
    run_perplexity(session, task, read_wikitext(data), out);
  } else if (task == "q_geo") {
    run_q_geo(session, read_text_documents(data), out);
  } else {
    run_perplexity(session, task, read_text_documents(data), out);
  }
}

}  // namespace

Evaluation evaluate(const EvalOptions& options) {
  check_options(options);
  ops::set_threads(options.threads);
  const at::NoGradGuard no_grad;
  Session session = open_session(options);
  Evaluation out;
  out.device = session.compute.device.is_cuda()
                   ? ops::gpu().name
                   : concat("cpu, ", at::get_num_threads(), " threads");
  for (const std::string& task : options.tasks) {
    try {
      run_task(session, task, out);
    } catch (const Error& error) {
      out.failures.push_back(
          {task, error.what() + data_hint(task), error.code()});
    }
  }
  return out;
}

}  // namespace osdn::eval
