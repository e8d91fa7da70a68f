#include "osdn/eval/answer_log.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/log.h"
#include "osdn/core/path.h"
#include "osdn/eval/python_text.h"

namespace osdn::eval {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// A call that was killed leaves a line without its end: what follows must not
/// be glued to it.
void end_last_line(File& file, const fs::path& path) {
  const std::string text = read_file(path);
  if (!text.empty() && text.back() != '\n') file.write("\n");
}

}  // namespace

fs::path answers_of_rank(const fs::path& path, int rank) {
  return rank == 0 ? path : fs::path(concat(path.string(), ".rank", rank));
}

std::vector<fs::path> answer_files(const fs::path& path) {
  std::vector<fs::path> files;
  if (is_there(path)) files.push_back(path);
  const fs::path folder = path.has_parent_path() ? path.parent_path() : ".";
  if (!is_folder(folder)) return files;
  const std::string beginning = path.filename().string() + ".rank";
  for (const fs::path& other : files_in(folder)) {
    const std::string name = other.filename().string();
    if (name.starts_with(beginning) && name.size() > beginning.size() &&
        name.find_first_not_of("0123456789", beginning.size()) ==
            std::string::npos) {
      files.push_back(other);
    }
  }
  return files;
}

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
  for (const fs::path& file : answer_files(*path)) read(file);
  path_ = answers_of_rank(*path, rank);
  if (!is_there(*path_)) return;
  file_ = File::open_append(*path_);
  end_last_line(file_, *path_);
}

void AnswerLog::read(const fs::path& path) {
  const std::string text = read_file(path);
  std::size_t sound = 0, broken = 0;
  for (const std::string_view line : split_at(text, "\n")) {
    if (line.empty()) continue;
    if (auto logged = parse_answer_line(line)) {
      answers_[logged->key][logged->row] = std::move(logged->answer);
      ++sound;
    } else {
      ++broken;
    }
  }
  if (sound == 0 && broken > 0 && text.find('\n') != std::string::npos) {
    throw Error(concat(path.string(),
                       ": is no log of answers, and what osdn-eval adds would "
                       "spoil it; give --answers a name of its own"),
                ExitCode::kUsage);
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
  if (!file_.is_open()) file_ = File::open_append(*path_);
  file_.write(lines);
}

bool AnswerLog::spent() const {
  return std::all_of(
      answers_.begin(), answers_.end(),
      [this](const auto& of_key) { return asked_.contains(of_key.first); });
}

}  // namespace osdn::eval
