#include "osdn/eval/collect_answers.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/eval/python_text.h"
#include "osdn/report/progress.h"

namespace osdn::eval {
namespace {

using Answers = std::map<std::size_t, Answer>;

void check_finite(const Request& request, const Answer& answer) {
  if (std::isfinite(answer.log_likelihood)) return;
  throw Error(concat(request.place, ": the model's log-likelihood is ",
                     answer.log_likelihood,
                     "; its weights or the computation are not sound"),
              ExitCode::kNonFinite);
}

bool all_known(const Pack& pack, const Answers& known) {
  return std::all_of(pack.begin(), pack.end(),
                     [&](std::size_t row) { return known.contains(row); });
}

/// The packs of one rank, from the log where it has them.
class Collector {
 public:
  Collector(const Collection& what, BatchRun& run, AnswerLog& log,
            const Ranks& ranks)
      : what_(what),
        run_(run),
        log_(log),
        known_(log.answers(what.key)),
        shows_progress_(ranks.rank == 0) {
    const auto count = static_cast<std::size_t>(ranks.count);
    for (std::size_t i = static_cast<std::size_t>(ranks.rank);
         i < run.packs().size(); i += count) {
      (all_known(run.packs()[i], known_) ? logged_ : open_).push_back(i);
    }
  }

  Answers collect() {
    Answers answers;
    for (const std::size_t pack : logged_) {
      for (const std::size_t row : run_.packs()[pack]) {
        answers[row] = known_.at(row);
      }
    }
    std::int64_t total = 0;
    for (const std::size_t pack : open_) {
      for (const std::size_t row : run_.packs()[pack]) {
        total += run_.work_of(row);
      }
    }
    if (total == 0) return answers;
    // Of several ranks, whose shares are alike, the first one shows its own.
    std::optional<report::Progress> progress;
    if (shows_progress_) {
      progress.emplace(report::ProgressOptions{.label = what_.label,
                                               .unit = run_.unit(),
                                               .total = total,
                                               .stream = Stream::kStderr});
    }
    const WorkDone work = [&](std::int64_t done) {
      if (progress) progress->add(done);
    };
    for (const std::size_t pack : open_) answer(pack, work, answers);
    if (progress) progress->finish();
    return answers;
  }

 private:
  void answer(std::size_t pack, const WorkDone& work, Answers& answers) {
    std::vector<std::pair<std::size_t, Answer>> fresh;
    run_.answer(
        pack,
        [&](std::size_t row, Answer found) {
          check_finite(what_.batch->requests[row], found);
          fresh.emplace_back(row, std::move(found));
        },
        work);
    log_.append(what_.key, fresh);
    for (auto& [row, found] : fresh) answers[row] = std::move(found);
  }

  const Collection& what_;
  BatchRun& run_;
  AnswerLog& log_;
  const Answers& known_;
  bool shows_progress_;
  std::vector<std::size_t> logged_, open_;  // packs of this rank
};

/// What one rank tells the others: its answers, or why there are none.
struct Told {
  Answers answers{};
  std::string error{};
  ExitCode code = ExitCode::kFailure;
};

Told try_to_collect(const Collection& what,
                    const std::function<std::unique_ptr<BatchRun>()>& begin,
                    AnswerLog& log, const Ranks& ranks) {
  Told told;
  try {
    const std::unique_ptr<BatchRun> run = begin();
    told.answers = Collector(what, *run, log, ranks).collect();
  } catch (const Error& error) {
    told.error = error.what();
    told.code = error.code();
  } catch (const std::exception& error) {
    told.error = error.what();
  }
  return told;
}

/// An error's code and message on the first line, then an answer a line.
std::string text_of(const Told& told) {
  std::string text =
      nlohmann::json({static_cast<int>(told.code), told.error})
          .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  for (const auto& [row, answer] : told.answers) {
    text += '\n';
    text += answer_line("", row, answer);
  }
  return text;
}

Told told_by(const std::string& text) {
  const auto lines = split_at(text, "\n");
  const auto head = nlohmann::json::parse(lines.front());
  Told told{{}, head.at(1), static_cast<ExitCode>(head.at(0).get<int>())};
  for (std::size_t i = 1; i < lines.size(); ++i) {
    LoggedAnswer logged = parse_answer_line(lines[i]).value();
    told.answers[logged.row] = std::move(logged.answer);
  }
  return told;
}

}  // namespace

std::vector<Answer> collect_answers(
    const Collection& what,
    const std::function<std::unique_ptr<BatchRun>()>& begin, AnswerLog& log,
    const Ranks& ranks) {
  Told mine = try_to_collect(what, begin, log, ranks);
  std::vector<Told> all;
  if (ranks.count == 1) {
    all.push_back(std::move(mine));
  } else {
    for (const std::string& text : ranks.gather(text_of(mine))) {
      all.push_back(told_by(text));
    }
  }
  std::vector<Answer> answers(what.batch->requests.size());
  for (Told& told : all) {
    if (!told.error.empty()) throw Error(told.error, told.code);
    for (auto& [row, answer] : told.answers) answers[row] = std::move(answer);
  }
  return answers;
}

}  // namespace osdn::eval
