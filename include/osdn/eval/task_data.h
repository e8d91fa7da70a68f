#pragma once
// A task's file: where it is, and its rows with errors that name them.

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "osdn/core/error.h"
#include "osdn/eval/task.h"

namespace osdn::eval {

/// The data of a task are not where it looks for them.
class MissingData : public Error {
 public:
  using Error::Error;
};

/// The file of --data with one of these names (relative paths like
/// "eval/piqa.jsonl": a folder of --data is searched for the path and for its
/// last part, each also with .zst behind it; a file is compared so too), or the
/// only file that --data names, whatever its name. Of several names the first
/// that is there counts. Throws MissingData: kUsage without --data, else
/// kBadInput saying what was looked for and where; Error (kUsage) where files
/// of that name in several places differ.
std::filesystem::path task_file(const TaskContext& context,
                                const std::vector<std::string>& names);

/// One line of JSON Lines. Every getter throws Error (kBadInput) naming file,
/// line and field when the field is missing or of another type.
class Row {
 public:
  Row(const std::string& file, std::int64_t line, nlohmann::json object);
  ~Row();
  Row(Row&&) noexcept;
  Row& operator=(Row&&) noexcept;

  bool has(std::string_view field) const;
  /// Rows of some sets come in two layouts. True for the one with more of its
  /// own fields there, `first` where both have as many; throws Error
  /// (kBadInput) naming both where the row has none of either.
  bool is_first_layout(std::initializer_list<std::string_view> first,
                       std::initializer_list<std::string_view> second) const;
  std::string text(std::string_view field) const;
  /// A whole number, or a string that is one.
  std::int64_t number(std::string_view field) const;
  std::vector<std::string> texts(std::string_view field) const;
  /// A field of an object in a field: choices/text.
  std::vector<std::string> texts(std::string_view field,
                                 std::string_view inner) const;
  /// index() of two, or true or false.
  std::size_t truth(std::string_view field) const;
  /// number(), which has to be in [0, count).
  std::size_t index(std::string_view field, std::size_t count) const;

  /// "piqa.jsonl:17"
  const std::string& place() const { return place_; }
  /// An Error (kBadInput) that begins with the place.
  Error error(std::string_view what) const;

 private:
  const nlohmann::json& at(std::string_view field) const;
  std::string keys() const;

  std::string place_;
  std::unique_ptr<nlohmann::json> object_;
};

struct Rows {
  std::vector<Row> rows{};
  bool more = false;  ///< the limit left some out
};

/// The first `limit` rows of a .jsonl or .jsonl.zst file in order; lines of
/// white space are passed over. Throws Error (kBadInput) naming file and line
/// for what is not a JSON object and for a key that an object has twice, and
/// for a file without rows.
Rows read_rows(const std::filesystem::path& file,
               const std::optional<std::int64_t>& limit);

/// SHA-256 of one file; of the files' hashes in a row where there are several;
/// empty without any.
std::string hash_of_files(const std::vector<std::filesystem::path>& files);

/// The rows of a task's file, up to --limit. The task gets its name and hash,
/// and is told where the limit left some out.
std::vector<Row> task_rows(const TaskContext& context,
                           const std::filesystem::path& file,
                           PreparedTask& task);

}  // namespace osdn::eval
