#pragma once
// A strict JSON reader that remembers where every value stands. nlohmann's
// parser keeps no positions, accepts duplicate keys and turns 3.0 and 1e3 into
// the same number, all of which a configuration has to tell apart.

#include <string>
#include <string_view>
#include <vector>

namespace osdn::config {

struct JsonMember;

struct JsonNode {
  enum class Type { kNull, kBoolean, kNumber, kString, kList, kObject };

  Type type = Type::kNull;
  bool boolean = false;
  std::string text;  ///< a string's content, or a number as it was written
  std::vector<JsonNode> items;
  std::vector<JsonMember> members;
  std::string origin;  ///< "my.json:12:5", or "--set a.b=c"
  bool from_override = false;

  const JsonMember* find(std::string_view name) const;
  JsonMember* find(std::string_view name);
};

struct JsonMember {
  std::string name;
  std::string origin;
  JsonNode value;
};

/// Reads one JSON value that is all of `text` (RFC 8259: no comments, no
/// trailing commas, no NaN). A syntax error is thrown as an Error with line and
/// column; a duplicate key is added to `problems` with both places, and its
/// first value is kept.
JsonNode parse_json(std::string_view text, const std::string& name,
                    std::vector<std::string>& problems);

/// A string as JSON writes it: in quotes, control characters escaped.
std::string quoted(const std::string& text);

/// What a value is, for messages: `7`, `"abc"`, `true`, `a list`.
std::string describe(const JsonNode& node);

}  // namespace osdn::config
