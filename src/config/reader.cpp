#include "osdn/config/reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "json_document.h"
#include "key_table.h"
#include "osdn/config/validate.h"
#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "osdn/core/nearest.h"
#include "osdn/core/utf8.h"
#include "presets.h"
#include "problems.h"

namespace osdn::config {

namespace {

std::string joined_path(const std::string& section, const std::string& name) {
  return section.empty() ? name : section + "." + name;
}

std::vector<std::string> split_path(std::string_view path) {
  std::vector<std::string> parts;
  std::size_t start = 0;
  for (;;) {
    const std::size_t dot = path.find('.', start);
    parts.emplace_back(path.substr(start, dot - start));
    if (dot == std::string_view::npos) {
      return parts;
    }
    start = dot + 1;
  }
}

// ---- values ---------------------------------------------------------------

// A value of the key's type and range, or what is wrong with it: the end of a
// sentence that begins with the key and the place.
struct Converted {
  std::optional<Value> value;
  std::string wrong;
};

Converted refuse(const JsonNode& node, const Key& key,
                 const std::string& remark = "") {
  return {std::nullopt, concat("is ", describe(node), remark, ", but must be ",
                               key.allowed(), ".")};
}

template <typename T>
Converted to_integer(const JsonNode& node, const Key& key) {
  const std::string& text = node.text;
  if (text.find_first_of(".eE") != std::string::npos) {
    double value = 0;
    const auto read =
        std::from_chars(text.data(), text.data() + text.size(), value);
    const bool whole = read.ec == std::errc() && std::floor(value) == value &&
                       std::fabs(value) < 9e15;
    return refuse(node, key,
                  whole ? concat(" (write ", static_cast<std::int64_t>(value),
                                 ": integers have no point and no exponent)")
                        : "");
  }
  T value = 0;
  const auto result =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size() ||
      !key.admits(value)) {
    return refuse(node, key);
  }
  return {Value(value), ""};
}

Converted to_number(const JsonNode& node, const Key& key) {
  const std::string& text = node.text;
  double value = 0;
  const auto result =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec == std::errc::result_out_of_range) {
    return refuse(node, key, " (outside what a double can hold)");
  }
  if (!key.admits(value)) {
    return refuse(node, key);
  }
  return {Value(value), ""};
}

Converted to_choice(const JsonNode& node, const Key& key) {
  if (key.admits(node.text)) {
    return {Value(node.text), ""};
  }
  Converted refused = refuse(node, key);
  if (const auto near = nearest(node.text, key.choices)) {
    refused.wrong += concat(" Did you mean \"", *near, "\"?");
  }
  return refused;
}

Converted to_strings(const JsonNode& node, const Key& key) {
  std::vector<std::string> strings;
  for (const JsonNode& item : node.items) {
    if (item.type != JsonNode::Type::kString ||
        !key.admits(std::vector<std::string>{item.text})) {
      return {std::nullopt, concat("holds ", describe(item), ", but must be ",
                                   key.allowed(), ".")};
    }
    strings.push_back(item.text);
  }
  if (!key.admits(strings)) {
    return refuse(node, key);
  }
  return {Value(std::move(strings)), ""};
}

Converted to_integers(const JsonNode& node, const Key& key) {
  std::vector<std::int64_t> integers;
  for (const JsonNode& item : node.items) {
    const std::string& text = item.text;
    std::int64_t value = 0;
    const auto read =
        std::from_chars(text.data(), text.data() + text.size(), value);
    if (item.type != JsonNode::Type::kNumber || read.ec != std::errc() ||
        read.ptr != text.data() + text.size() ||
        !key.within(static_cast<double>(value))) {
      return {std::nullopt, concat("holds ", describe(item), ", but must be ",
                                   key.allowed(), ".")};
    }
    integers.push_back(value);
  }
  return {Value(std::move(integers)), ""};
}

Converted convert(const JsonNode& node, const Key& key) {
  using Type = JsonNode::Type;
  switch (key.kind) {
    case Key::Kind::kBoolean:
      return node.type == Type::kBoolean ? Converted{Value(node.boolean), ""}
                                         : refuse(node, key);
    case Key::Kind::kInteger:
      return node.type == Type::kNumber ? to_integer<std::int64_t>(node, key)
                                        : refuse(node, key);
    case Key::Kind::kUnsigned:
      return node.type == Type::kNumber ? to_integer<std::uint64_t>(node, key)
                                        : refuse(node, key);
    case Key::Kind::kNumber:
      return node.type == Type::kNumber ? to_number(node, key)
                                        : refuse(node, key);
    case Key::Kind::kString:
      return node.type == Type::kString && key.admits(node.text)
                 ? Converted{Value(node.text), ""}
                 : refuse(node, key);
    case Key::Kind::kChoice:
      return node.type == Type::kString ? to_choice(node, key)
                                        : refuse(node, key);
    case Key::Kind::kStrings:
      if (node.type == Type::kString) {
        return refuse(node, key, concat(" (write [", quoted(node.text), "])"));
      }
      return node.type == Type::kList ? to_strings(node, key)
                                      : refuse(node, key);
    case Key::Kind::kIntegers:
      return node.type == Type::kList ? to_integers(node, key)
                                      : refuse(node, key);
  }
  return refuse(node, key);
}

// ---- suggestions
// --------------------------------------------------------------

// What an unknown name in `section` may have been meant to be, as a sentence
// with a leading space; the names that exist there otherwise.
std::string suggestion(const std::string& section, const std::string& name) {
  std::vector<std::string> here;              // names and other names
  std::map<std::string, std::string> key_of;  // each to the name in the file
  std::string listed;
  for (const Key& key : key_table()) {
    if (key.name() == name && key.section() != section) {
      return concat(" Did you mean ", key.pointer(), "?");
    }
    if (key.section() == section) {
      here.push_back(key.name());
      key_of.try_emplace(key.name(), key.name());
      listed += concat(listed.empty() ? "" : ", ", key.name());
    }
  }
  for (const Section& inner : section_table()) {
    const std::size_t dot = inner.path.rfind('.');
    const std::string outer =
        dot == std::string::npos ? "" : inner.path.substr(0, dot);
    if (!inner.path.empty() && outer == section) {
      const std::string inner_name =
          inner.path.substr(dot == std::string::npos ? 0 : dot + 1);
      here.push_back(inner_name);
      key_of.try_emplace(inner_name, inner_name);
      listed += concat(listed.empty() ? "" : ", ", inner_name);
    }
  }
  for (const Key& key : key_table()) {
    if (key.section() == section) {
      for (const std::string& other : key.other_names) {
        here.push_back(other);
        key_of.try_emplace(other, key.name());
      }
    }
  }
  if (const auto near = nearest(name, here)) {
    return concat(" Did you mean ", key_of.at(*near), "?");
  }
  for (const Key& key : key_table()) {
    if (nearest(name, std::vector<std::string>{key.name()}) ||
        nearest(name, key.other_names)) {
      return concat(" Did you mean ", key.pointer(), "?");
    }
  }
  return concat(" Known here: ", listed, ".");
}

// ---- the walk over the file
// -----------------------------------------------------

class Resolver {
 public:
  Resolver(std::string subject, std::vector<std::string> problems)
      : subject_(std::move(subject)), problems_(std::move(problems)) {}

  Config resolve(const JsonNode& root) {
    if (root.type != JsonNode::Type::kObject) {
      problems_.push_back(concat(root.origin, ": the configuration is ",
                                 describe(root), ", but must be an object."));
      throw_problems(problems_, subject_);
    }
    read_section(root, "");
    config_.model.preconditioner.enabled =
        config_.model.preconditioner.enabled ||
        sections_.contains("model.preconditioner");
    if (config_.model.preconditioner.enabled) {
      apply_preset(config_.model, [this](std::string_view path) {
        return origins_.contains(std::string(path));
      });
    }
    if (config_.data.validation.empty() &&
        !origins_.contains("training.validate_every")) {
      config_.training.validate_every = 0;
    }
    check_required();
    check_effects();
    const auto combined = combination_problems(
        config_, [this](std::string_view path) { return describe_key(path); });
    problems_.insert(problems_.end(), combined.begin(), combined.end());
    throw_problems(problems_, subject_);
    return config_;
  }

 private:
  void read_section(const JsonNode& object, const std::string& section) {
    for (const JsonMember& member : object.members) {
      const std::string path = joined_path(section, member.name);
      const JsonNode& node = member.value;
      // --set a.b=null takes a key out; in a file it is a wrong type.
      const bool removed =
          node.type == JsonNode::Type::kNull && node.from_override;
      if (find_section(path) != nullptr) {
        if (node.type == JsonNode::Type::kObject) {
          sections_.insert(path);
          read_section(node, path);
        } else if (!removed) {
          problems_.push_back(concat(pointer_of(path), " in ", node.origin,
                                     " is ", describe(node),
                                     ", but must be an object."));
        }
      } else if (const Key* key = find_key(path)) {
        if (!removed) {
          read_key(node, *key);
        }
      } else {
        problems_.push_back(concat(pointer_of(path), " in ", member.origin,
                                   " is not a known key.",
                                   suggestion(section, member.name)));
      }
    }
  }

  void read_key(const JsonNode& node, const Key& key) {
    origins_[key.path] = node.origin;
    const Converted converted = convert(node, key);
    if (converted.value) {
      key.set(config_, *converted.value);
    } else {
      refused_.insert(key.path);
      problems_.push_back(
          concat(key.pointer(), " in ", node.origin, " ", converted.wrong));
    }
  }

  void check_required() {
    for (const Key& key : key_table()) {
      if (key.required && !origins_.contains(key.path)) {
        problems_.push_back(concat(key.pointer(), " is missing in ", subject_,
                                   ". Give ", key.allowed(), ": ", key.help));
      }
    }
  }

  void check_effects() {
    for (const Key& key : key_table()) {
      if (key.applies && origins_.contains(key.path) &&
          !refused_.contains(key.path) && !refused_condition(key) &&
          !key.applies(config_)) {
        problems_.push_back(concat(key.pointer(), " in ", origins_.at(key.path),
                                   " has no effect here: it counts only where ",
                                   key.condition,
                                   ". Remove it or change that."));
      }
    }
  }

  // A key whose condition rests on a refused value is judged when that is
  // mended.
  bool refused_condition(const Key& key) const {
    return std::any_of(refused_.begin(), refused_.end(),
                       [&key](const std::string& path) {
                         return key.condition.find(path) != std::string::npos;
                       });
  }

  std::string describe_key(std::string_view path) const {
    const std::string name(path);
    if (refused_.contains(name)) {
      return "";
    }
    const auto origin = origins_.find(name);
    return origin == origins_.end()
               ? pointer_of(path)
               : concat(pointer_of(path), " in ", origin->second);
  }

  std::string subject_;
  std::vector<std::string> problems_;
  Config config_;
  std::map<std::string, std::string> origins_;  // of every key that is given
  std::set<std::string> sections_;
  std::set<std::string> refused_;
};

// ---- overrides
// ----------------------------------------------------------------------

void mark_override(JsonNode& node, const std::string& origin) {
  node.origin = origin;
  node.from_override = true;
  for (JsonNode& item : node.items) {
    mark_override(item, origin);
  }
  for (JsonMember& member : node.members) {
    member.origin = origin;
    mark_override(member.value, origin);
  }
}

// JSON where it is JSON, a string otherwise.
JsonNode override_value(const std::string& text, const std::string& origin,
                        std::vector<std::string>& problems) {
  JsonNode node;
  try {
    node = parse_json(text, origin, problems);
  } catch (const Error&) {
    node.type = JsonNode::Type::kString;
    node.text = text;
  }
  mark_override(node, origin);
  return node;
}

void apply_override(JsonNode& root, const std::string& text,
                    std::vector<std::string>& problems) {
  if (const auto bad = first_invalid_utf8(text)) {
    problems.push_back(concat("--set ", text.substr(0, *bad), ": byte ",
                              *bad + 1, " is not UTF-8; keys and values are."));
    return;
  }
  const std::string origin = concat("--set ", text);
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    problems.push_back(concat(origin,
                              ": expected a key and a value, for "
                              "example --set optimizer.lr=0.001."));
    return;
  }
  const std::vector<std::string> parts = split_path(text.substr(0, equals));
  JsonNode* node = &root;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (node->type != JsonNode::Type::kObject) {
      // A section that is not an object is reported where it stands; an
      // override of something in it makes it one.
      *node = JsonNode{};
      node->type = JsonNode::Type::kObject;
      node->origin = origin;
    }
    JsonMember* member = node->find(parts[i]);
    if (member == nullptr) {
      JsonMember added;
      added.name = parts[i];
      added.origin = origin;
      added.value.type = JsonNode::Type::kObject;
      added.value.origin = origin;
      node->members.push_back(std::move(added));
      member = &node->members.back();
    }
    if (i + 1 == parts.size()) {
      member->origin = origin;
      member->value = override_value(text.substr(equals + 1), origin, problems);
    }
    node = &member->value;
  }
}

// The value is a string, whatever it looks like.
void put_run_dir(JsonNode& root, const std::string& folder,
                 std::vector<std::string>& problems) {
  const std::string origin = concat("--run-dir ", folder);
  if (first_invalid_utf8(folder)) {
    problems.push_back("--run-dir: the folder's name is not UTF-8.");
    return;
  }
  JsonMember* member = root.find("run_dir");
  if (member == nullptr) {
    root.members.emplace_back().name = "run_dir";
    member = &root.members.back();
  }
  member->origin = origin;
  member->value = {};
  member->value.type = JsonNode::Type::kString;
  member->value.text = folder;
  mark_override(member->value, origin);
}

Config resolve(std::string_view text, const std::string& name,
               const std::vector<std::string>& overrides,
               const std::string& run_dir) {
  std::vector<std::string> problems;
  JsonNode root = parse_json(text, name, problems);
  if (root.type == JsonNode::Type::kObject) {
    for (const std::string& override_text : overrides) {
      apply_override(root, override_text, problems);
    }
    if (!run_dir.empty()) put_run_dir(root, run_dir, problems);
  }
  return Resolver(name, std::move(problems)).resolve(root);
}

}  // namespace

Config parse(std::string_view text, const std::string& name,
             const std::vector<std::string>& overrides) {
  return resolve(text, name, overrides, "");
}

Config load(const LoadRequest& request) {
  const std::filesystem::path path = find_config(request.config);
  return resolve(read_file(path), path.string(), request.overrides,
                 request.run_dir);
}

}  // namespace osdn::config
