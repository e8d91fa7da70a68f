#include "osdn/eval/evaluation.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <charconv>
#include <fstream>
#include <nlohmann/json.hpp>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "osdn/core/hash.h"
#include "osdn/core/log.h"
#include "osdn/core/nearest.h"
#include "osdn/data/text_reader.h"
#include "osdn/eval/perplexity.h"
#include "osdn/eval/q_geo.h"
#include "osdn/eval/request_hash.h"
#include "osdn/eval/trained_model.h"
#include "osdn/eval/wikitext.h"
#include "osdn/eval/window_batches.h"
#include "osdn/report/progress.h"
#include "osdn/tokenizer/tokenizer.h"

namespace osdn::eval {
namespace {

namespace fs = std::filesystem;

/// A text to score: what the model reads, and what it is counted by.
struct EvalDocument {
  std::string text;
  std::int64_t words = 0;
  std::int64_t bytes = 0;
};

struct DataSet {
  std::string name;
  std::string hash;
  std::vector<EvalDocument> documents;
};

/// Everything that the tasks share.
struct Session {
  const EvalOptions& options;
  TrainedModel trained;
  tokenizer::Tokenizer tokenizer;
  std::optional<std::int64_t> max_len;
  std::int32_t prefix = 0;
  bool double_bos = false;  ///< --bos 1: t starts with the begin token as well
};

at::ScalarType dtype_of(const std::string& name) {
  if (name == "fp32") return at::kFloat;
  if (name == "fp64") return at::kDouble;
  throw Error("--dtype is '" + name + "'; on the CPU it is fp32 or fp64",
              ExitCode::kUsage);
}

std::optional<std::int64_t> max_len_of(const std::string& text,
                                       const config::Config& config) {
  if (text.empty()) return config.data.context_length;
  if (text == "none") return std::nullopt;
  std::int64_t value = 0;
  const auto [end, fault] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc() || end != text.data() + text.size() || value < 1) {
    throw Error("--max-len is '" + text + "'; give a number from 1, or none",
                ExitCode::kUsage);
  }
  return value;
}

tokenizer::Tokenizer open_tokenizer(const EvalOptions& options,
                                    const config::Config& config) {
  if (options.tokenizer) return tokenizer::Tokenizer(*options.tokenizer);
  if (!config.data.tokenizer.empty()) {
    return tokenizer::Tokenizer(config.data.tokenizer);
  }
  throw Error(
      "the run names no tokenizer (data.tokenizer); give one with --tokenizer",
      ExitCode::kUsage);
}

Session open_session(const EvalOptions& options) {
  if (options.bos != "protocol" && options.bos != "0" && options.bos != "1") {
    throw Error("--bos is '" + options.bos + "'; it is protocol, 0 or 1",
                ExitCode::kUsage);
  }
  TrainedModel trained =
      load_trained_model(options.model, dtype_of(options.dtype), at::kCPU);
  tokenizer::Tokenizer tokenizer = open_tokenizer(options, trained.config);
  const std::int64_t vocabulary = trained.config.model.vocab_size;
  if (tokenizer.vocab_size() > vocabulary) {
    throw Error(concat("tokenizer ", tokenizer.path().string(), " has ",
                       tokenizer.vocab_size(),
                       " pieces, the model a vocabulary of ", vocabulary,
                       "; use the tokenizer that the model was trained with"),
                ExitCode::kBadInput);
  }
  const auto prefix =
      tokenizer.bos_id() ? tokenizer.bos_id() : tokenizer.eos_id();
  if (!prefix) {
    throw Error(concat("tokenizer ", tokenizer.path().string(),
                       " defines neither a begin nor an end token; rolling "
                       "perplexity needs one in front of the first token"),
                ExitCode::kBadInput);
  }
  const auto max_len = max_len_of(options.max_len, trained.config);
  return {options, std::move(trained), std::move(tokenizer), max_len,
          *prefix, options.bos == "1"};
}

/// SHA-256 of the files' contents, in order.
std::string hash_of_files(const std::vector<fs::path>& files) {
  if (files.size() == 1) return sha256_of_file(files.front());
  std::string hashes;
  for (const fs::path& file : files) hashes += sha256_of_file(file);
  return sha256(hashes);
}

std::string names_of(const std::vector<fs::path>& files) {
  std::string names;
  for (const fs::path& file : files) {
    names += (names.empty() ? "" : ",") + file.filename().string();
  }
  return names;
}

void require_data(const EvalOptions& options, const char* task) {
  if (options.data.empty()) {
    throw Error(concat("task ", task,
                       " needs --data with a .txt or .jsonl file (or .zst)"),
                ExitCode::kUsage);
  }
}

DataSet read_text(const EvalOptions& options, const char* task) {
  require_data(options, task);
  data::TextOptions text;
  data::set_split(text, options.split);
  text.field = options.field;
  const auto files = data::text_files(options.data);
  DataSet set{names_of(files), hash_of_files(files), {}};
  data::TextReader reader(files, text);
  while (const auto raw = reader.next()) {
    if (options.limit &&
        static_cast<std::int64_t>(set.documents.size()) >= *options.limit) {
      break;
    }
    EvalDocument document{reader.text_of(*raw), 0, 0};
    document.words = count_words(document.text);
    document.bytes = static_cast<std::int64_t>(document.text.size());
    set.documents.push_back(std::move(document));
  }
  return set;
}

/// Counted before the detokenisation, read after it.
DataSet read_wikitext(const EvalOptions& options) {
  require_data(options, "wikitext");
  if (options.data.size() != 1) {
    throw Error("task wikitext reads one raw file, --data names several",
                ExitCode::kUsage);
  }
  const fs::path& file = options.data.front();
  DataSet set{file.filename().string(), sha256_of_file(file), {}};
  for (const std::string& page : split_wikitext(read_file(file))) {
    if (options.limit &&
        static_cast<std::int64_t>(set.documents.size()) >= *options.limit) {
      break;
    }
    set.documents.push_back({detokenise_wikitext(page), count_words(page),
                             static_cast<std::int64_t>(page.size())});
  }
  return set;
}

struct Requests {
  std::vector<WindowRequest> windows;
  std::vector<std::int64_t> scored;  ///< tokens, by document
  std::int64_t input_tokens = 0;
  std::string hash;
};

Requests make_requests(const Session& session, const DataSet& set) {
  Requests all;
  RequestHash hash;
  for (std::size_t i = 0; i < set.documents.size(); ++i) {
    const std::string& text = set.documents[i].text;
    hash.add("", text);
    std::vector<std::int32_t> tokens = session.tokenizer.encode(text);
    if (session.double_bos) tokens.insert(tokens.begin(), session.prefix);
    all.scored.push_back(static_cast<std::int64_t>(tokens.size()));
    for (WindowRequest& request :
         window_requests(static_cast<std::int64_t>(i), tokens, session.prefix,
                         session.max_len)) {
      all.input_tokens += static_cast<std::int64_t>(request.input.size());
      all.windows.push_back(std::move(request));
    }
  }
  all.hash = hash.hex();
  return all;
}

std::vector<double> score(const Session& session, const Requests& requests,
                          const std::string& label) {
  report::Progress progress({.label = label,
                             .unit = " tokens",
                             .total = requests.input_tokens,
                             .stream = Stream::kStderr});
  std::vector<double> sums = score_requests(
      session.trained.model, requests.windows, session.options.batch_tokens,
      [&](std::int64_t done) { progress.update(done); });
  progress.finish();
  return sums;
}

/// The fields that all results of one task share.
Result result_base(const Session& session, const std::string& task,
                   const DataSet& set, const Requests& requests) {
  Result r;
  r.task = task;
  r.n = static_cast<std::int64_t>(set.documents.size());
  r.protocol = session.max_len ? "window" : "full";
  r.model = session.trained.folder.string();
  r.model_config_hash = session.trained.config_hash;
  r.tokenizer = session.tokenizer.path().filename().string();
  r.tokenizer_hash = session.tokenizer.sha256();
  r.data = set.name;
  r.data_hash = set.hash;
  r.requests_hash = requests.hash;
  r.bos = session.double_bos;
  r.max_len = session.max_len;
  r.dtype = session.options.dtype;
  r.batch_tokens = session.options.batch_tokens;
  r.limit = session.options.limit;
  return r;
}

void write_samples(const fs::path& file, const std::string& task,
                   const std::vector<ScoredDocument>& documents) {
  std::ofstream out(file, std::ios::app);
  for (std::size_t i = 0; i < documents.size(); ++i) {
    out << nlohmann::json{{"task", task},
                          {"index", i},
                          {"tokens", documents[i].tokens},
                          {"log_likelihood", documents[i].log_likelihood}}
               .dump()
        << '\n';
  }
  if (!out) throw Error("cannot write " + file.string());
}

void run_perplexity(const Session& session, const std::string& task,
                    const DataSet& set, std::vector<Result>& results) {
  const Requests requests = make_requests(session, set);
  const std::vector<double> sums = score(session, requests, task);
  std::vector<ScoredDocument> documents;
  for (std::size_t i = 0; i < set.documents.size(); ++i) {
    documents.push_back({0, set.documents[i].words, set.documents[i].bytes,
                         requests.scored[i]});
  }
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const auto document =
        static_cast<std::size_t>(requests.windows[i].document);
    documents[document].log_likelihood += sums[i];
  }
  std::int64_t words = 0, bytes = 0, tokens = 0;
  double log_likelihood = 0;
  for (const ScoredDocument& d : documents) {
    words += d.words;
    bytes += d.bytes;
    tokens += d.tokens;
    log_likelihood += d.log_likelihood;
  }
  const nlohmann::json detail = {{"words", words},
                                 {"bytes", bytes},
                                 {"tokens", tokens},
                                 {"windows", requests.windows.size()},
                                 {"log_likelihood", log_likelihood}};
  for (const PerplexityMetric& metric : perplexities(documents)) {
    Result r = result_base(session, task, set, requests);
    r.metric = metric.name;
    r.value = metric.value;
    r.stderr_ = metric.standard_error;
    r.detail = detail.dump();
    results.push_back(std::move(r));
  }
  if (session.options.samples) {
    write_samples(*session.options.samples, task, documents);
  }
}

nlohmann::json q_geo_row(const QGeoSums& s) {
  const auto n = static_cast<double>(s.count);
  return {{"q_geo", std::exp(s.log_q / n)},
          {"q_geo_ones", std::exp(s.log_q_ones / n)},
          {"q_geo_mean", std::exp(s.log_q_mean / n)},
          {"q_geo_flip", std::exp(s.log_q_flip / n)},
          {"mean_beta", s.beta / n}};
}

void run_q_geo(Session& session, std::vector<Result>& results) {
  const DataSet set = read_text(session.options, "q_geo");
  const Requests requests = make_requests(session, set);
  QGeoObserver observer;
  session.trained.model.observe(&observer);
  score(session, requests, "q_geo");
  session.trained.model.observe(nullptr);

  const QGeoSums s = observer.total();
  if (s.count == 0) {
    throw Error("q_geo: the data hold no token", ExitCode::kBadInput);
  }
  nlohmann::json detail = {{"layers", nlohmann::json::array()},
                           {"heads", nlohmann::json::array()}};
  std::map<std::int64_t, QGeoSums> layers;
  for (const QGeoObserver::Head& head : observer.heads()) {
    layers[head.layer].add(head.sums);
    nlohmann::json row = q_geo_row(head.sums);
    row["layer"] = head.layer;
    row["head"] = head.head;
    detail["heads"].push_back(std::move(row));
  }
  for (const auto& [layer, sums] : layers) {
    nlohmann::json row = q_geo_row(sums);
    row["layer"] = layer;
    detail["layers"].push_back(std::move(row));
  }
  const auto n = static_cast<double>(s.count);
  const auto add = [&](const char* name, double value) {
    Result r = result_base(session, "q_geo", set, requests);
    r.metric = name;
    r.value = value;
    r.n = s.count;
    if (r.metric == "q_geo") r.detail = detail.dump();
    results.push_back(std::move(r));
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

void check_tasks(const std::vector<std::string>& tasks) {
  std::vector<std::string> names;
  for (const TaskInfo& task : known_tasks()) names.emplace_back(task.name);
  if (tasks.empty()) {
    throw Error("no task was asked for; osdn-eval --task list shows them",
                ExitCode::kUsage);
  }
  for (const std::string& task : tasks) {
    if (std::find(names.begin(), names.end(), task) != names.end()) continue;
    const auto close = nearest(task, names);
    throw Error(concat("there is no task '", task, "'",
                       close ? concat("; did you mean '", *close, "'?") : "",
                       " (osdn-eval --task list shows all)"),
                ExitCode::kUsage);
  }
}

}  // namespace

const std::vector<TaskInfo>& known_tasks() {
  static const std::vector<TaskInfo> tasks = {
      {"ppl", "--data FILE: .txt or .jsonl, also .zst",
       "word, byte and token perplexity in rolling windows"},
      {"wikitext", "--data wiki.test.raw: the raw WikiText-2 test file",
       "the same by article, detokenised as the literature does"},
      {"q_geo", "--data FILE: .txt or .jsonl, also .zst",
       "the share of a token's own error that its write leaves"},
  };
  return tasks;
}

std::vector<Result> evaluate(const EvalOptions& options) {
  check_tasks(options.tasks);
  if (options.batch_tokens < 1) {
    throw Error("--batch-tokens must be at least 1", ExitCode::kUsage);
  }
  if (options.threads > 0) {
    at::set_num_threads(static_cast<int>(options.threads));
  }
  const at::NoGradGuard no_grad;
  Session session = open_session(options);
  std::vector<Result> results;
  for (const std::string& task : options.tasks) {
    if (task == "ppl") {
      run_perplexity(session, task, read_text(options, "ppl"), results);
    } else if (task == "wikitext") {
      run_perplexity(session, task, read_wikitext(options), results);
    } else {
      run_q_geo(session, results);
    }
  }
  return results;
}

}  // namespace osdn::eval
