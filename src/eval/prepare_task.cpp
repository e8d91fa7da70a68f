#include "prepare_task.h"

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "in_words.h"
#include "osdn/core/concat.h"
#include "osdn/core/hash.h"
#include "osdn/eval/task_data.h"

namespace osdn::eval {

const tokenizer::Tokenizer& TaskContext::need_tokenizer() const {
  if (tokenizer) return *tokenizer;
  throw Error(concat("task ", info.name,
                     " counts in tokens; give a tokenizer "
                     "with --tokenizer"),
              ExitCode::kUsage);
}

std::vector<std::string> TaskContext::protocols(std::size_t usual) const {
  const std::vector<std::string>& all = info.protocols;
  const std::string& asked = options.protocol;
  if (asked.empty()) {
    return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(
                                           std::min(usual, all.size()))};
  }
  if (std::find(all.begin(), all.end(), asked) != all.end()) return {asked};
  throw Error(concat("--protocol is '", asked, "'; ", info.name,
                     " expects one of ", in_words(all)),
              ExitCode::kUsage);
}

namespace {

nlohmann::ordered_json generation_settings(const GenerationRule& rule) {
  constexpr const char* kSides[] = {"left", "right", "middle"};
  nlohmann::ordered_json settings = {
      {"new_tokens", rule.max_new_tokens},
      {"stops", rule.stops},
      {"truncation", kSides[static_cast<std::size_t>(rule.truncation)]}};
  if (rule.tokens_before_stop > 0) {
    settings["tokens_before_stop"] = rule.tokens_before_stop;
  }
  return settings;
}

/// What the score depends on and is not in the requests.
void describe(const EvalOptions& options, PreparedTask& task) {
  auto settings = task.settings.empty()
                      ? nlohmann::ordered_json::object()
                      : nlohmann::ordered_json::parse(task.settings);
  if (task.batch.kind == RequestKind::kGeneration) {
    settings["generation"] = generation_settings(task.batch.generation);
  }
  if (options.shots > 0) {
    settings["shots"] = options.shots;
    task.data_hash =
        sha256(task.data_hash + hash_of_files({*options.shots_file}));
  }
  task.settings = settings.empty() ? "" : settings.dump();
}

RequestHash hash_of(const RequestBatch& batch) {
  RequestHash hash;
  for (const Request& request : batch.requests) {
    hash.add(request.context, request.continuation);
  }
  return hash;
}

void complete(const EvalOptions& options, const TaskInfo& info,
              PreparedTask& task) {
  if (task.name.empty()) task.name = info.name;
  const bool measured = task.batch.kind == RequestKind::kMeasure;
  if (options.bos != "protocol" && !measured) {
    task.batch.bos = options.bos == "1";
  }
  if (options.shots > 0 && task.batch.kind != RequestKind::kLikelihood) {
    throw Error("--shots: this task takes no solved examples",
                ExitCode::kUsage);
  }
  if (!task.hash) task.hash = hash_of(task.batch);
  if (task.hash->count() == 0) {
    throw Error(concat(task.data, ": no row is left to ask; ", task.dropped,
                       " were left out"),
                ExitCode::kBadInput);
  }
  describe(options, task);
}

std::vector<PreparedTask> prepare_alone(const EvaluationSession& session,
                                        const TaskDefinition& task) {
  std::vector<PreparedTask> all = task.prepare(session.context(task.info));
  std::set<std::pair<std::string, std::string>> names;
  for (PreparedTask& prepared : all) {
    complete(session.options(), task.info, prepared);
    if (!names.insert({prepared.name, prepared.protocol}).second) {
      throw Error(concat(prepared.name, " ", prepared.protocol,
                         " is asked for twice; expected each size or length "
                         "once"),
                  ExitCode::kUsage);
    }
  }
  if (all.empty()) {
    throw Error("there is nothing to ask: expected at least one size or length",
                ExitCode::kUsage);
  }
  return all;
}

/// What one rank tells the others: what it has prepared, or why it has not.
nlohmann::json told_by(const std::vector<PreparedTask>& all) {
  nlohmann::json told = {{"code", 0}, {"tasks", nlohmann::json::array()}};
  for (const PreparedTask& task : all) {
    told["tasks"].push_back({task.name, task.protocol, task.hash->hex(),
                             task.data_hash, task.settings, task.limited});
  }
  return told;
}

nlohmann::json told_by(const Error& error) {
  return {{"code", static_cast<int>(error.code())},
          {"error", error.what()},
          {"missing", dynamic_cast<const MissingData*>(&error) != nullptr}};
}

/// Throws what the first rank with an error says: that data is missing where
/// it is on all of them.
void agree(const nlohmann::json& mine, const Ranks& ranks) {
  std::vector<nlohmann::json> all;
  for (const std::string& text : ranks.gather(mine.dump(
           -1, ' ', false, nlohmann::json::error_handler_t::replace))) {
    all.push_back(nlohmann::json::parse(text));
  }
  const bool none_has_it = std::all_of(
      all.begin(), all.end(),
      [](const nlohmann::json& told) { return told.value("missing", false); });
  for (const nlohmann::json& told : all) {
    const auto code = static_cast<ExitCode>(told.at("code").get<int>());
    if (code == ExitCode::kOk) continue;
    const auto message = told.at("error").get<std::string>();
    if (none_has_it) throw MissingData(message, code);
    throw Error(message, code);
  }
  if (std::adjacent_find(all.begin(), all.end(), std::not_equal_to<>()) ==
      all.end()) {
    return;
  }
  throw Error(
      "the ranks read different data; expected the same files on each host",
      ExitCode::kBadInput);
}

}  // namespace

std::vector<PreparedTask> prepare_task(const EvaluationSession& session,
                                       const TaskDefinition& task,
                                       const Ranks& ranks) {
  if (ranks.count == 1) return prepare_alone(session, task);
  std::vector<PreparedTask> all;
  nlohmann::json mine;
  try {
    all = prepare_alone(session, task);
    mine = told_by(all);
  } catch (const Error& error) {
    mine = told_by(error);
  }
  agree(mine, ranks);
  return all;
}

void for_each_task(const std::vector<SelectedTask>& selected,
                   const std::function<void(const SelectedTask&)>& run,
                   std::vector<TaskFailure>& failures) {
  std::map<std::string, bool> found;  // of groups that run what is found
  for (std::size_t i = 0; i < selected.size(); ++i) {
    const SelectedTask& task = selected[i];
    const TaskInfo& info = task.definition->info;
    const bool last_of_group = std::none_of(
        selected.begin() + static_cast<std::ptrdiff_t>(i) + 1, selected.end(),
        [&](const SelectedTask& other) { return other.group == task.group; });
    const auto fail = [&](const Error& error) {
      failures.push_back(
          {info.name, error.what() + data_hint(info), error.code()});
    };
    try {
      run(task);
      found[task.group] = true;
    } catch (const MissingData& error) {
      if (!task.only_if_found) {
        fail(error);
      } else if (last_of_group && !found[task.group]) {
        failures.push_back({task.group,
                            concat("none of the group's sets is there; the "
                                   "last one: ",
                                   error.what(), data_hint(info)),
                            error.code()});
      }
    } catch (const Error& error) {
      found[task.group] = true;
      fail(error);
    }
  }
}

}  // namespace osdn::eval
