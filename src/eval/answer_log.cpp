#include "osdn/eval/answer_log.h"

#include <nlohmann/json.hpp>

#include "osdn/core/concat.h"
#include "osdn/core/log.h"
#include "osdn/core/path.h"
#include "osdn/eval/python_text.h"

namespace osdn::eval {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

fs::path file_of_rank(const fs::path& path, int rank) {
  return rank == 0 ? path : fs::path(concat(path.string(), ".rank", rank));
}

/// A call that was killed leaves a line without its end: what follows must not
/// be glued to it.
void end_last_line(File& file, const fs::path& path) {
  const std::string text = read_file(path);
  if (!text.empty() && text.back() != '\n') file.write("\n");
}

}  // namespace

std::string answer_line(const std::string& key, std::size_t row,
                        const Answer& answer) {
  const nlohmann::ordered_json line = {
      {"key", key},
      {"row", row},
      {"log_likelihood", answer.log_likelihood},
      {"greedy", answer.greedy},
      {"tokens", answer.tokens},
      {"truncated", answer.truncated},
      {"empty_continuation", answer.empty_continuation},
      {"output", answer.output}};
  return line.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::optional<LoggedAnswer> parse_answer_line(std::string_view line) {
  const json object = json::parse(line, nullptr, false);
  if (!object.is_object()) return std::nullopt;
  try {
    LoggedAnswer logged{object.at("key"), object.at("row"), {}};
    Answer& answer = logged.answer;
    object.at("log_likelihood").get_to(answer.log_likelihood);
    object.at("greedy").get_to(answer.greedy);
    object.at("tokens").get_to(answer.tokens);
    object.at("truncated").get_to(answer.truncated);
    object.at("empty_continuation").get_to(answer.empty_continuation);
    object.at("output").get_to(answer.output);
    return logged;
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

AnswerLog::AnswerLog(std::optional<fs::path> path, int rank) {
  if (!path) return;
  for (int other = 0; is_there(file_of_rank(*path, other)); ++other) {
    read(file_of_rank(*path, other));
  }
  path_ = file_of_rank(*path, rank);
  file_ = File::open_append(*path_);
  end_last_line(file_, *path_);
}

void AnswerLog::read(const fs::path& path) {
  const std::string text = read_file(path);
  std::size_t broken = 0;
  for (const std::string_view line : split_at(text, "\n")) {
    if (line.empty()) continue;
    if (auto logged = parse_answer_line(line)) {
      answers_[logged->key][logged->row] = std::move(logged->answer);
    } else {
      ++broken;
    }
  }
  if (broken > 0) {
    log::warn(path.string(), ": ", broken,
              " lines are no answers of osdn-eval and are passed over");
  }
}

const std::map<std::size_t, Answer>& AnswerLog::answers(
    const std::string& key) const {
  static const std::map<std::size_t, Answer> none;
  asked_.insert(key);
  const auto found = answers_.find(key);
  return found == answers_.end() ? none : found->second;
}

void AnswerLog::append(
    const std::string& key,
    const std::vector<std::pair<std::size_t, Answer>>& answers) {
  if (!path_) return;
  std::string lines;
  for (const auto& [row, answer] : answers) {
    lines += answer_line(key, row, answer) + "\n";
  }
  file_.write(lines);
}

std::optional<fs::path> AnswerLog::spent() const {
  for (const auto& [key, rows] : answers_) {
    if (!asked_.contains(key)) return std::nullopt;
  }
  return path_;
}

}  // namespace osdn::eval
