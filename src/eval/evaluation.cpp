#include "osdn/eval/evaluation.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <utility>

#include "evaluation_options.h"
#include "evaluation_session.h"
#include "group_average.h"
#include "osdn/core/concat.h"
#include "osdn/core/hash.h"
#include "osdn/core/log.h"
#include "osdn/eval/answer_log.h"
#include "osdn/eval/collect_answers.h"
#include "osdn/eval/request_hash.h"
#include "osdn/eval/task_data.h"
#include "osdn/eval/task_table.h"
#include "osdn/ops/threads.h"
#include "osdn/report/table.h"
#include "sample_lines.h"

namespace osdn::eval {

const tokenizer::Tokenizer& TaskContext::need_tokenizer() const {
  if (tokenizer) return *tokenizer;
  throw Error(concat("task ", info.name,
                     " counts in tokens; give a tokenizer "
                     "with --tokenizer"),
              ExitCode::kUsage);
}

namespace {

RequestHash hash_of(const PreparedTask& task) {
  if (task.hash) return *task.hash;
  RequestHash hash;
  for (const Request& request : task.batch.requests) {
    hash.add(request.context, request.continuation);
  }
  return hash;
}

/// A task's requests, with what the options say of all tasks.
std::vector<PreparedTask> prepare(const EvaluationSession& session,
                                  const TaskDefinition& task) {
  const EvalOptions& options = session.options();
  std::vector<PreparedTask> all = task.prepare(session.context(task.info));
  for (PreparedTask& prepared : all) {
    if (prepared.name.empty()) prepared.name = task.info.name;
    if (options.bos != "protocol") prepared.batch.bos = options.bos == "1";
    if (options.shots > 0 && prepared.batch.kind != RequestKind::kLikelihood) {
      throw Error("--shots: this task takes no solved examples",
                  ExitCode::kUsage);
    }
  }
  return all;
}

/// All of a result that is known before anything is scored.
Result result_base(const EvaluationSession& session, const PreparedTask& task) {
  const RequestKind kind = task.batch.kind;
  const bool full =
      kind == RequestKind::kRolling && session.options().rolling == "full";
  Result r;
  session.describe(r);
  r.task = task.name;
  r.protocol = task.protocol;
  r.settings = task.settings;
  r.data = task.data;
  r.data_hash = task.data_hash;
  r.requests_hash = hash_of(task).hex();
  r.bos = task.batch.bos;
  if (kind == RequestKind::kMeasure) {
    r.max_len = task.max_len;
  } else if (!full) {
    r.max_len = session.max_len();
  }
  r.dropped = task.dropped;
  r.no_label = task.no_label;
  r.seed = task.seed;
  r.limit = session.options().data.limit;
  return r;
}

/// Counts what befell rows, and names the first of them.
void count_rows(const PreparedTask& task, std::span<const Answer> answers,
                bool tell, Result& base) {
  const auto count = [&](bool Answer::*field, const char* what) {
    std::int64_t rows = 0;
    std::string first;
    for (std::size_t i = 0; i < answers.size(); ++i) {
      if (!(answers[i].*field)) continue;
      if (rows++ == 0) first = task.batch.requests[i].place;
    }
    if (rows > 0 && tell) {
      log::warn(task.name, ": ", rows, " of ", answers.size(), " rows ", what,
                "; the first is ", first);
    }
    return rows;
  };
  base.truncated = count(&Answer::truncated,
                         "are longer than the model's limit and were cut");
  base.empty_cont = count(&Answer::empty_continuation,
                          "leave no token to score behind their context");
}

/// One call of evaluate().
class Evaluator {
 public:
  Evaluator(const EvalOptions& options, const Ranks& ranks)
      : selected_(select_tasks(options.tasks)),
        session_(options, EvaluationSession::Weights::kLoad),
        log_(is_dummy(options) ? std::nullopt : options.answers, ranks.rank),
        ranks_(ranks) {}

  Evaluation run() {
    out_.device = session_.device();
    for (const SelectedTask& task : selected_) try_task(task);
    for (const auto& [group, members] : groups_) add_average(group, members);
    if (out_.failures.empty()) out_.spent_answers = log_.spent();
    return std::move(out_);
  }

 private:
  void try_task(const SelectedTask& task) {
    const TaskInfo& info = task.definition->info;
    const auto fail = [&](const Error& error) {
      out_.failures.push_back(
          {info.name, error.what() + data_hint(info), error.code()});
    };
    std::vector<GroupMember>* members =
        task.group.empty() ? nullptr : &groups_[task.group];
    try {
      for (const PreparedTask& prepared : prepare(session_, *task.definition)) {
        if (members) members->push_back({prepared.name, info.paper_metric});
        run_prepared(prepared);
      }
    } catch (const MissingData& error) {
      if (!task.only_if_found || nothing_found(task)) fail(error);
    } catch (const Error& error) {
      fail(error);
    }
  }

  /// For the last task of a group that runs what is found: none was.
  bool nothing_found(const SelectedTask& task) const {
    const auto last = std::find_if(
        selected_.rbegin(), selected_.rend(),
        [&](const SelectedTask& other) { return other.group == task.group; });
    return last->definition == task.definition &&
           groups_.at(task.group).empty();
  }

  void run_prepared(const PreparedTask& task) {
    Result base = result_base(session_, task);
    base.n = std::ssize(task.batch.requests);
    const Collection what{
        task.protocol.empty() ? task.name
                              : concat(task.name, " ", task.protocol),
        sha256(concat(config_hash(base), session_.device())).substr(0, 32),
        &task.batch};
    const std::vector<Answer> answers = collect_answers(
        what, [&] { return session_.begin(task); }, log_, ranks_);
    count_rows(task, answers, ranks_.rank == 0, base);
    const Scores scores = task.score(answers);
    for (const Metric& metric : scores.metrics) {
      Result result = base;
      result.metric = metric.name;
      result.value = metric.value;
      result.stderr_ = metric.standard_error;
      result.n = metric.n;
      result.detail = metric.detail;
      out_.results.push_back(std::move(result));
    }
    out_.samples += sample_lines(task.name, task, answers, scores);
  }

  void add_average(const std::string& group,
                   const std::vector<GroupMember>& members) {
    for (Result& result : group_averages(group, members, out_.results)) {
      out_.results.push_back(std::move(result));
    }
  }

  std::vector<SelectedTask> selected_;
  EvaluationSession session_;
  AnswerLog log_;
  const Ranks& ranks_;
  std::map<std::string, std::vector<GroupMember>> groups_;
  Evaluation out_;
};

}  // namespace

Evaluation evaluate(const EvalOptions& options, const Ranks& ranks) {
  check_options(options);
  ops::set_threads(options.threads);
  const at::NoGradGuard no_grad;
  return Evaluator(options, ranks).run();
}

RequestHashes request_hashes(const EvalOptions& options) {
  check_options(options);
  const auto selected = select_tasks(options.tasks);
  const EvaluationSession session(options, EvaluationSession::Weights::kLeave);
  using report::Align;
  report::Table table({{"task", Align::kLeft},
                       {"protocol", Align::kLeft},
                       {"requests"},
                       {"sha256", Align::kLeft}});
  RequestHashes out;
  for (const SelectedTask& task : selected) {
    const TaskInfo& info = task.definition->info;
    try {
      for (const PreparedTask& prepared : prepare(session, *task.definition)) {
        const RequestHash hash = hash_of(prepared);
        table.add_row({prepared.name,
                       prepared.protocol.empty() ? "-" : prepared.protocol,
                       concat(hash.count()), hash.hex()});
      }
    } catch (const MissingData& error) {
      if (task.only_if_found) continue;
      out.failures.push_back(
          {info.name, error.what() + data_hint(info), error.code()});
    } catch (const Error& error) {
      out.failures.push_back(
          {info.name, error.what() + data_hint(info), error.code()});
    }
  }
  if (table.rows() > 0) out.table = table.text();
  return out;
}

}  // namespace osdn::eval
