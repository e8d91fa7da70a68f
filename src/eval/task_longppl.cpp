// Perplexity by position in blocks of 20,480 tokens (eval.md 8), and beside it
// what the preconditioner does there.

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/path.h"
#include "osdn/eval/model_session.h"
#include "osdn/eval/task.h"
#include "osdn/eval/text_data.h"
#include "osdn/eval/window_batches.h"
#include "position_observer.h"

namespace osdn::eval {
namespace {

using nlohmann::json;

constexpr std::int64_t kBuckets = 10;
constexpr std::int64_t kBucket = 2048;
constexpr std::int64_t kBlock = kBuckets * kBucket;

/// Tokens [begin, begin + kBlock) of what was tokenised, and the label of the
/// last one.
struct Block {
  std::vector<std::int32_t> tokens{};
  std::int64_t last_label = ops::kNoLabel;
};

struct Settings {
  bool bos = false;        ///< one before each document
  bool per_doc = false;    ///< the first block of each
  bool score_end = false;  ///< the last position of a block predicts EOS
};

/// The blocks of all documents; what is left behind the last one is dropped.
std::vector<Block> blocks_of(const tokenizer::Tokenizer& tokenizer,
                             const DataSet& set, const Settings& settings,
                             std::int64_t& dropped) {
  std::vector<Block> blocks;
  std::vector<std::int32_t> open;
  const auto take_blocks = [&](bool one) {
    std::int64_t taken = 0;
    while (std::ssize(open) >= kBlock && (!one || taken == 0)) {
      Block block{{open.begin(), open.begin() + kBlock}, ops::kNoLabel};
      if (settings.score_end) block.last_label = *tokenizer.eos_id();
      blocks.push_back(std::move(block));
      open.erase(open.begin(), open.begin() + kBlock);
      ++taken;
    }
    return taken;
  };
  for (const EvalDocument& document : set.documents) {
    if (settings.bos) open.push_back(*tokenizer.bos_id());
    const auto tokens = tokenizer.encode(document.text);
    open.insert(open.end(), tokens.begin(), tokens.end());
    const bool taken = take_blocks(settings.per_doc) > 0;
    if (settings.per_doc) {
      open.clear();
      dropped += taken ? 0 : 1;
    }
  }
  if (blocks.empty()) {
    throw Error(concat("the data make no block of ", kBlock,
                       " tokens; what is left of them has ", open.size()),
                ExitCode::kBadInput);
  }
  return blocks;
}

WindowRequest request_of(const Block& block) {
  WindowRequest request{0, block.tokens, {}};
  request.labels.assign(block.tokens.begin() + 1, block.tokens.end());
  request.labels.push_back(block.last_label);
  return request;
}

/// Sums of one block, or of all, by bucket.
struct Sums {
  std::vector<double> nll = std::vector<double>(kBuckets, 0.0);
  std::vector<std::int64_t> tokens = std::vector<std::int64_t>(kBuckets, 0);
  std::vector<PositionObserver::Bucket> d{kBuckets};
};

Answer answer_of(const Sums& sums) {
  json d = json::array();
  for (const PositionObserver::Bucket& bucket : sums.d) {
    d.push_back({bucket.channels, bucket.d, bucket.on_box});
  }
  Answer answer;
  answer.output =
      json{{"nll", sums.nll}, {"tokens", sums.tokens}, {"d", d}}.dump();
  for (std::size_t i = 0; i < kBuckets; ++i) {
    answer.log_likelihood -= sums.nll[i];
    answer.tokens += sums.tokens[i];
  }
  return answer;
}

void add(const Answer& answer, Sums& sums) {
  const json object = json::parse(answer.output);
  for (std::size_t i = 0; i < kBuckets; ++i) {
    sums.nll[i] += object.at("nll").at(i).get<double>();
    sums.tokens[i] += object.at("tokens").at(i).get<std::int64_t>();
    const json& d = object.at("d").at(i);
    sums.d[i].channels += d.at(0).get<std::int64_t>();
    sums.d[i].d += d.at(1).get<double>();
    sums.d[i].on_box += d.at(2).get<std::int64_t>();
  }
}

Answer run_block(const ModelSession& session, const Block& block) {
  PositionObserver observer(kBuckets, kBucket);
  const ObserverScope scope(session, observer);
  Sums sums;
  score_tokens(
      session.trained.model, {request_of(block)}, session.batch_tokens,
      [](std::int64_t) {},
      [&](const TokenScore& token) {
        const auto bucket = static_cast<std::size_t>(token.position / kBucket);
        sums.nll[bucket] -= token.log_prob;
        ++sums.tokens[bucket];
      },
      [&](const PassPlace& pass) { observer.set_offset(pass.offset); });
  sums.d = observer.buckets();
  return answer_of(sums);
}

/// A bucket's row of the detail, which --csv writes.
json row_of(const Sums& sums, std::size_t i) {
  json row = {{"position", static_cast<std::int64_t>(i) * kBucket},
              {"tokens", sums.tokens[i]},
              {"perplexity",
               std::exp(sums.nll[i] / static_cast<double>(sums.tokens[i]))}};
  if (sums.d[i].channels > 0) {
    const auto channels = static_cast<double>(sums.d[i].channels);
    row["mean_d"] = sums.d[i].d / channels;
    row["on_box"] = static_cast<double>(sums.d[i].on_box) / channels;
  }
  return row;
}

Scores score(std::span<const Answer> answers) {
  Sums sums;
  for (const Answer& answer : answers) add(answer, sums);
  json rows = json::array();
  double nll = 0, tokens = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    rows.push_back(row_of(sums, i));
    nll += sums.nll[i];
    tokens += static_cast<double>(sums.tokens[i]);
  }
  Scores scores;
  const auto add_metric = [&](std::string name, double value) {
    scores.metrics.push_back(
        {std::move(name), value, std::nullopt, std::ssize(answers), ""});
  };
  add_metric("perplexity", std::exp(nll / tokens));
  scores.metrics.front().detail = json{{"buckets", rows}}.dump();
  add_metric("drift", rows[9].at("perplexity").get<double>() -
                          rows[1].at("perplexity").get<double>());
  for (const char* key : {"perplexity", "mean_d", "on_box"}) {
    for (std::size_t i = 0; i < kBuckets; ++i) {
      if (rows[i].contains(key)) add_metric(concat(key, "_", i), rows[i][key]);
    }
  }
  return scores;
}

/// A folder with a folder "novels" stands for that.
DataSet read_documents(DataOptions data) {
  for (auto& input : data.inputs) {
    if (is_folder(input / "novels")) input /= "novels";
  }
  return read_text_documents(data);
}

Settings settings_of(const TaskContext& context) {
  const bool fla = context.options.parity == "fla";
  if (fla && context.tokenizer &&
      !(context.tokenizer->bos_id() && context.tokenizer->eos_id())) {
    throw Error("--parity fla needs a tokenizer with begin and end tokens",
                ExitCode::kBadInput);
  }
  return {fla || context.options.bos == "1", context.options.per_doc, fla};
}

std::string protocol_of(const Settings& settings) {
  return concat(settings.score_end ? "fla" : "blocks",
                settings.per_doc ? ", first of each document" : "");
}

std::vector<PreparedTask> prepare(const TaskContext& context) {
  const DataSet set = read_documents(context.options.data);
  const Settings settings = settings_of(context);
  PreparedTask prepared;
  prepared.protocol = protocol_of(settings);
  prepared.data = set.name;
  prepared.data_hash = set.hash;
  prepared.dropped = set.dropped;
  prepared.limited = set.limited;
  prepared.max_len = kBlock;
  prepared.batch.kind = RequestKind::kMeasure;
  prepared.batch.bos = settings.bos;
  prepared.hash.emplace();
  for (const EvalDocument& document : set.documents) {
    prepared.hash->add("", document.text);
  }
  std::vector<Block> blocks;
  if (context.tokenizer) {
    blocks = blocks_of(*context.tokenizer, set, settings, prepared.dropped);
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    prepared.batch.requests.push_back({"", "", concat(set.name, ", block ", i),
                                       "", static_cast<std::int64_t>(i)});
  }
  prepared.measure = [blocks = std::move(blocks)](
                         const ModelSession& session,
                         std::span<const std::size_t> rows,
                         const AnswerDone& done) {
    for (const std::size_t row : rows) {
      done(row, run_block(session, blocks[row]));
    }
  };
  prepared.score = score;
  std::vector<PreparedTask> all;
  all.push_back(std::move(prepared));
  return all;
}

}  // namespace

std::vector<TaskDefinition> longppl_tasks() {
  return {{{"longppl", "",
            "perplexity by position in blocks of 20,480 tokens, drift (the "
            "last bucket against the second); mean of d, share on its box",
            "--data FILE or FOLDER: .txt or .jsonl, long documents",
            R"(any long texts; load_dataset("fla-hub/pg19", split="test"))",
            "perplexity"},
           prepare,
           always({"--split", "--field", "--parity", "--per-doc", "--bos"})}};
}

}  // namespace osdn::eval
