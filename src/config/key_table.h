#pragma once
// The schema: one row per key, from which the reader, the range checks, the
// suggestions, the printed configuration and docs/configuration.md all follow.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "osdn/config/config.h"

namespace osdn::config {

using Value =
    std::variant<bool, std::int64_t, std::uint64_t, double, std::string,
                 std::vector<std::string>, std::vector<std::int64_t>>;

/// A limit of a number. `open` excludes the limit itself.
struct Limit {
  double value = 0;
  bool open = false;
};

struct Key {
  enum class Kind {
    kBoolean,
    kInteger,
    kUnsigned,
    kNumber,
    kString,
    kStrings,
    kIntegers,  ///< a list; the limits are those of each
    kChoice
  };

  std::string path;  ///< "model.preconditioner.eta"
  Kind kind = Kind::kBoolean;
  std::string help;
  std::optional<Limit> low;
  std::optional<Limit> high;
  std::vector<std::string> choices;
  /// What people from elsewhere call it; for suggestions alone.
  std::vector<std::string> other_names;
  bool required = false;
  /// Strings that name files or folders: not blank, and without NUL, at which
  /// the system would cut them short.
  bool is_path = false;
  /// Said in place of the default where that depends on other keys.
  std::string default_text;
  /// A key that changes nothing in a configuration is an error there:
  /// `condition` says in words what `applies` tests. Null: always applies.
  std::function<bool(const Config&)> applies;
  std::string condition;

  std::function<void(Config&, const Value&)> set;
  /// Nothing when the key is optional and has no value.
  std::function<std::optional<Value>(const Config&)> get;

  std::string section() const;  ///< "model.preconditioner"; "" at the top
  std::string name() const;     ///< "eta"
  std::string pointer() const;  ///< "/model/preconditioner/eta"
  std::string allowed() const;  ///< "an integer from 1 to 1024"
  /// True for a value of the key's own type that is within its limits, one of
  /// its choices, and a path where it names a file.
  bool admits(const Value& value) const;
  bool within(double number) const;  ///< the limits
};

/// In the order of the documentation.
const std::vector<Key>& key_table();
const Key* find_key(std::string_view path);

struct Section {
  std::string path;
  std::string help;
};
/// The sections of the file, outer ones first; the top has the path "".
const std::vector<Section>& section_table();
const Section* find_section(std::string_view path);

/// "model.num_heads" -> "/model/num_heads".
std::string pointer_of(std::string_view path);

/// A value as it would be written in the file.
std::string to_text(const Value& value);

}  // namespace osdn::config
