#pragma once
// Answers on disk as they come, so that an interrupted call goes on where it
// was.

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "osdn/core/file.h"
#include "osdn/eval/request.h"

namespace osdn::eval {

/// One JSON object without line end; doubles keep every bit.
std::string answer_line(const std::string& key, std::size_t row,
                        const Answer& answer);

struct LoggedAnswer {
  std::string key;
  std::size_t row = 0;
  Answer answer{};
};
/// Inverse of answer_line; nothing for a line that is none.
std::optional<LoggedAnswer> parse_answer_line(std::string_view line);

/// "<path>.rank<r>", and the path itself for rank 0.
std::filesystem::path answers_of_rank(const std::filesystem::path& path,
                                      int rank);

/// The files of a log that are there, those of earlier calls with more ranks
/// included.
std::vector<std::filesystem::path> answer_files(
    const std::filesystem::path& path);

/// One file for all tasks of a call. A line carries the key of what its answer
/// depends on (weights, tokenizer, requests, options), so that answers of
/// another configuration are kept and never used.
class AnswerLog {
 public:
  /// Without a path nothing is read or kept. Answers are read
  /// from the files of all ranks, and each writes its own. Lines that
  /// are not whole (a call was killed in the middle of one) are passed over,
  /// with a warning. The file is made with the first answer. Throws Error
  /// naming a file that cannot be read or written or that is no such log.
  AnswerLog(std::optional<std::filesystem::path> path, int rank);

  /// Answers under a key, by row.
  const std::map<std::size_t, Answer>& answers(const std::string& key) const;
  /// Appends lines and hands them to the system at once.
  void append(const std::string& key,
              const std::vector<std::pair<std::size_t, Answer>>& answers);

  /// All that was in the files is of keys that this call asked for: they can go
  /// once the results are written.
  bool spent() const;

 private:
  void read(const std::filesystem::path& path);

  std::optional<std::filesystem::path> path_;
  File file_;
  std::map<std::string, std::map<std::size_t, Answer>> answers_;
  mutable std::set<std::string> asked_;
};

}  // namespace osdn::eval
