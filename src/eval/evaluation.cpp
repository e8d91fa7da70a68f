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
#include "osdn/core/version.h"
#include "osdn/eval/answer_log.h"
#include "osdn/eval/collect_answers.h"
#include "osdn/eval/task_table.h"
#include "osdn/ops/threads.h"
#include "osdn/report/table.h"
#include "prepare_task.h"
#include "sample_lines.h"
#include "task_options.h"

namespace osdn::eval {

namespace {

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
  r.requests_hash = task.hash->hex();
  r.bos = task.batch.bos;
  if (kind == RequestKind::kMeasure) {
    r.max_len = task.max_len;
  } else if (task.batch.generation.prompt_tokens) {
    r.max_len = task.batch.generation.prompt_tokens;
  } else if (!full) {
    r.max_len = session.max_len();
  }
  r.dropped = task.dropped;
  r.no_label = task.no_label;
  r.seed = task.seed;
  if (task.limited) r.limit = session.options().data.limit;
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

std::vector<SelectedTask> checked_tasks(const EvalOptions& options) {
  std::vector<SelectedTask> tasks = select_tasks(options.tasks);
  check_task_options(tasks, options);
  return tasks;
}

/// One call of evaluate().
class Evaluator {
 public:
  Evaluator(const EvalOptions& options, const Ranks& ranks)
      : selected_(checked_tasks(options)),
        session_(options, EvaluationSession::Weights::kLoad),
        log_(is_dummy(options) ? std::nullopt : options.answers, ranks.rank),
        ranks_(ranks) {}

  Evaluation run() {
    out_.device = session_.device();
    for_each_task(
        selected_, [this](const SelectedTask& task) { run_task(task); },
        out_.failures);
    for (const auto& [group, members] : groups_) add_average(group, members);
    out_.answers_spent = log_.spent();
    return std::move(out_);
  }

 private:
  void run_task(const SelectedTask& task) {
    for (const PreparedTask& prepared :
         prepare_task(session_, *task.definition, ranks_)) {
      if (!task.group.empty()) {
        groups_[task.group].push_back(
            {prepared.name, task.definition->info.paper_metric});
      }
      run_prepared(prepared);
    }
  }

  void run_prepared(const PreparedTask& task) {
    Result base = result_base(session_, task);
    base.n = std::ssize(task.batch.requests);
    const Collection what{
        task.protocol.empty() ? task.name
                              : concat(task.name, " ", task.protocol),
        sha256(concat(config_hash(base), session_.device(), commit()))
            .substr(0, 32),
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
  if (is_dummy(options)) refuse_computing_options(options, "--model dummy");
  ops::set_threads(options.threads);
  const at::NoGradGuard no_grad;
  return Evaluator(options, ranks).run();
}

RequestHashes request_hashes(const EvalOptions& options) {
  check_options(options);
  refuse_computing_options(options, "--hash-requests");
  const auto selected = checked_tasks(options);
  const EvaluationSession session(options, EvaluationSession::Weights::kLeave);
  using report::Align;
  report::Table table({{"task", Align::kLeft},
                       {"protocol", Align::kLeft},
                       {"requests"},
                       {"sha256", Align::kLeft}});
  RequestHashes out;
  for_each_task(
      selected,
      [&](const SelectedTask& task) {
        for (const PreparedTask& prepared :
             prepare_task(session, *task.definition, {})) {
          table.add_row({prepared.name,
                         prepared.protocol.empty() ? "-" : prepared.protocol,
                         concat(prepared.hash->count()), prepared.hash->hex()});
        }
      },
      out.failures);
  if (table.rows() > 0) out.table = table.text();
  return out;
}

}  // namespace osdn::eval
