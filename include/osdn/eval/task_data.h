#pragma once
// A task's file: where it is, and its rows with errors that name them.

#include <cstdint>
#include <filesystem>
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
/// only file that
/// --data names, whatever its name. Throws MissingData: kUsage without --data,
/// else kBadInput saying what was looked for and where.
std::filesystem::path task_file(const TaskContext& context,
                                const std::vector<std::string>& names);

/// One line of JSON Lines. Every getter throws Error (kBadInput) naming file,
/// line and field when the field is missing or of another type.
class Row {
 public:
  Row(std::string file, std::int64_t line, nlohmann::json object);
  ~Row();
  Row(Row&&) noexcept;
  Row& operator=(Row&&) noexcept;

  bool has(std::string_view field) const;
  std::string text(std::string_view field) const;
  /// A whole number, or a string that is one.
  std::int64_t number(std::string_view field) const;
  std::vector<std::string> texts(std::string_view field) const;
  /// A field of an object in a field: choices/text.
  std::vector<std::string> texts(std::string_view field,
                                 std::string_view inner) const;
  /// number(), which has to be in [0, count).
  std::size_t index(std::string_view field, std::size_t count) const;

  /// "piqa.jsonl:17"
  const std::string& place() const { return place_; }
  /// An Error (kBadInput) that begins with the place.
  Error error(std::string_view what) const;

 private:
  const nlohmann::json& at(std::string_view field) const;

  std::string place_;
  std::unique_ptr<nlohmann::json> object_;
};

/// The first `limit` rows of a .jsonl or .jsonl.zst file in order; lines of
/// white space are passed over. Throws Error (kBadInput) naming file and line
/// for what is not a JSON object, and for a file without rows.
std::vector<Row> read_rows(const std::filesystem::path& file,
                           const std::optional<std::int64_t>& limit);

/// Name and hash of a task's file.
void describe_file(const std::filesystem::path& file, PreparedTask& task);

}  // namespace osdn::eval
