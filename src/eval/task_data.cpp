#include "osdn/eval/task_data.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "in_words.h"
#include "osdn/core/concat.h"
#include "osdn/core/hash.h"
#include "osdn/core/json_text.h"
#include "osdn/core/path.h"
#include "osdn/data/text_reader.h"

namespace osdn::eval {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// As such, and compressed: in one folder one is the other unpacked.
std::optional<fs::path> one_at(const fs::path& place) {
  for (const char* ending : {"", ".zst"}) {
    const fs::path file = place.string() + ending;
    if (is_there(file)) return file;
  }
  return std::nullopt;
}

/// A file of --data by its name, or "eval/piqa.jsonl" and "piqa.jsonl" in a
/// folder of it.
std::vector<fs::path> found_in(const fs::path& input, const std::string& name) {
  const fs::path last = fs::path(name).filename();
  if (!is_folder(input)) {
    const fs::path own = input.filename();
    if (own == last || own == last.string() + ".zst") return {input};
    return {};
  }
  std::vector<fs::path> found;
  if (const auto file = one_at(input / name)) found.push_back(*file);
  if (last == name) return found;
  if (const auto file = one_at(input / last)) found.push_back(*file);
  return found;
}

/// By this name, or by others of `names` that differ in the folder alone.
std::vector<fs::path> found_among(const std::vector<fs::path>& inputs,
                                  const std::vector<std::string>& names,
                                  const std::string& name) {
  std::vector<fs::path> found;
  for (const fs::path& input : inputs) {
    for (const std::string& other : names) {
      if (fs::path(other).filename() != fs::path(name).filename()) continue;
      for (fs::path& file : found_in(input, other)) {
        found.push_back(std::move(file));
      }
    }
  }
  return found;
}

/// Which of them is meant cannot be known where they differ.
const fs::path& only_one(const std::vector<fs::path>& found,
                         const std::string& name) {
  std::vector<std::string> different;
  std::set<std::string> hashes;
  for (const fs::path& file : found) {
    if (found.size() == 1 || hashes.insert(sha256_of_file(file)).second) {
      different.push_back(file.string());
    }
  }
  if (different.size() == 1) return found.front();
  throw Error(concat("--data holds several files ",
                     fs::path(name).filename().string(), ", which differ: ",
                     in_words(different), "; give one of them a call"),
              ExitCode::kUsage);
}

}  // namespace

fs::path task_file(const TaskContext& context,
                   const std::vector<std::string>& names) {
  const std::vector<fs::path>& inputs = context.options.data.inputs;
  if (inputs.empty()) {
    throw MissingData(
        concat("--data is missing; it has to be or to hold ", in_words(names)),
        ExitCode::kUsage);
  }
  std::vector<std::string> searched;
  for (const fs::path& input : inputs) {
    if (!is_there(input)) {
      throw MissingData(concat(input.string(), " does not exist"),
                        ExitCode::kBadInput);
    }
    searched.push_back(input.string());
  }
  for (const std::string& name : names) {
    const std::vector<fs::path> found = found_among(inputs, names, name);
    if (!found.empty()) return only_one(found, name);
  }
  if (inputs.size() == 1 && !is_folder(inputs.front())) return inputs.front();
  throw MissingData(concat("looked for ", in_words(names), " in ",
                           in_words(searched), "; none is there"),
                    ExitCode::kBadInput);
}

Row::Row(const std::string& file, std::int64_t line, json object)
    : place_(concat(file, ":", line)),
      object_(std::make_unique<json>(std::move(object))) {}
Row::~Row() = default;
Row::Row(Row&&) noexcept = default;
Row& Row::operator=(Row&&) noexcept = default;

Error Row::error(std::string_view what) const {
  return Error(concat(place_, ": ", what), ExitCode::kBadInput);
}

bool Row::has(std::string_view field) const {
  return object_->contains(field);
}

bool Row::is_first_layout(
    std::initializer_list<std::string_view> first,
    std::initializer_list<std::string_view> second) const {
  const auto there = [this](std::initializer_list<std::string_view> fields) {
    return std::count_if(fields.begin(), fields.end(),
                         [this](std::string_view f) { return has(f); });
  };
  if (there(first) + there(second) == 0) {
    const auto quoted = [](std::initializer_list<std::string_view> fields) {
      std::vector<std::string> names;
      for (const std::string_view field : fields) {
        names.push_back(concat("\"", field, "\""));
      }
      return in_words(names);
    };
    throw error(concat("there is neither ", quoted(first), " nor ",
                       quoted(second), "; the row has ", keys()));
  }
  return there(first) >= there(second);
}

std::string Row::keys() const {
  std::vector<std::string> keys;
  for (const auto& item : object_->items()) keys.push_back(item.key());
  return keys.empty() ? "none" : in_words(keys);
}

const json& Row::at(std::string_view field) const {
  const auto found = object_->find(field);
  if (found != object_->end()) return *found;
  throw error(
      concat("there is no field \"", field, "\"; the row has ", keys()));
}

std::string Row::text(std::string_view field) const {
  const json& value = at(field);
  if (value.is_string()) return value.get<std::string>();
  throw error(concat("field \"", field, "\" is a ", value.type_name(),
                     ", expected a string"));
}

std::int64_t Row::number(std::string_view field) const {
  const json& value = at(field);
  // What needs 64 bits without a sign would turn into another number.
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  const bool fits =
      !value.is_number_unsigned() || value.get<std::uint64_t>() <= kMost;
  if (value.is_number_integer() && fits) return value.get<std::int64_t>();
  if (value.is_string()) {
    const std::string& text = value.get_ref<const std::string&>();
    std::int64_t number = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, fault] = std::from_chars(text.data(), end, number);
    if (fault == std::errc() && rest == end) return number;
  }
  throw error(concat("field \"", field, "\" is ", value.dump(),
                     ", expected a whole number"));
}

namespace {

std::vector<std::string> strings_in(const Row& row, const std::string& name,
                                    const json& value) {
  if (!value.is_array()) {
    throw row.error(concat(name, " is ", value.type_name(),
                           ", expected a list of strings"));
  }
  std::vector<std::string> all;
  for (const json& entry : value) {
    if (!entry.is_string()) {
      throw row.error(concat(name, ": entry ", all.size(), " is ", entry.dump(),
                             ", expected a string"));
    }
    all.push_back(entry.get<std::string>());
  }
  return all;
}

}  // namespace

std::size_t Row::truth(std::string_view field) const {
  const json& value = at(field);
  return value.is_boolean() ? value.get<bool>() : index(field, 2);
}

std::vector<std::string> Row::texts(std::string_view field) const {
  return strings_in(*this, concat("field \"", field, "\""), at(field));
}

std::vector<std::string> Row::texts(std::string_view field,
                                    std::string_view inner) const {
  const json& object = at(field);
  if (object.is_object() && object.contains(inner)) {
    return strings_in(*this, concat("\"", inner, "\" in field \"", field, "\""),
                      object.at(std::string(inner)));
  }
  throw error(concat("field \"", field,
                     "\" has to be an object with a list of strings \"", inner,
                     "\""));
}

std::size_t Row::index(std::string_view field, std::size_t count) const {
  if (count == 0) {
    throw error(concat("there is no choice for field \"", field, "\""));
  }
  const std::int64_t value = number(field);
  if (value >= 0 && static_cast<std::size_t>(value) < count) {
    return static_cast<std::size_t>(value);
  }
  throw error(concat("field \"", field, "\" is ", value, ", expected 0 to ",
                     static_cast<std::int64_t>(count) - 1));
}

namespace {

json object_in(const data::RawDocument& raw, const std::string& place) {
  std::vector<RepeatedKey> repeated;
  json object;
  try {
    object = parse_json(raw.bytes, repeated);
  } catch (const json::exception&) {
    throw Error(concat(place,
                       ": this is not JSON in UTF-8, expected one JSON "
                       "object a line"),
                ExitCode::kBadInput);
  }
  if (!object.is_object()) {
    throw Error(concat(place, ": expected one JSON object a line, found one ",
                       object.type_name()),
                ExitCode::kBadInput);
  }
  if (!repeated.empty()) {
    throw Error(concat(place, ": field \"", repeated.front().key,
                       "\" is there more than once; expected it once"),
                ExitCode::kBadInput);
  }
  return object;
}

}  // namespace

Rows read_rows(const fs::path& file, const std::optional<std::int64_t>& limit) {
  const std::string name = file.filename().string();
  if (!name.ends_with(".jsonl") && !name.ends_with(".jsonl.zst")) {
    throw Error(concat(file.string(),
                       ": expected JSON Lines, a file that ends in .jsonl or "
                       ".jsonl.zst"),
                ExitCode::kBadInput);
  }
  data::TextReader reader({file}, {});
  Rows found;
  while (const auto raw = reader.next()) {
    if (limit && std::ssize(found.rows) >= *limit) {
      found.more = true;
      break;
    }
    const auto line = static_cast<std::int64_t>(raw->line);
    found.rows.emplace_back(file.string(), line,
                            object_in(*raw, concat(file.string(), ":", line)));
  }
  if (found.rows.empty()) {
    throw Error(concat(file.string(), " holds no row"), ExitCode::kBadInput);
  }
  return found;
}

std::string hash_of_files(const std::vector<fs::path>& files) {
  std::string hashes;
  for (const fs::path& file : files) hashes += sha256_of_file(file);
  return files.size() > 1 ? sha256(hashes) : hashes;
}

std::vector<Row> task_rows(const TaskContext& context, const fs::path& file,
                           PreparedTask& task) {
  task.data = file.filename().string();
  task.data_hash = hash_of_files({file});
  Rows found = read_rows(file, context.options.data.limit);
  task.limited = found.more;
  return std::move(found.rows);
}

}  // namespace osdn::eval
