#include "json_document.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/utf8.h"

namespace osdn::config {

namespace {

constexpr int kDeepest =
    64;  // far beyond any configuration, safe for the stack

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

void append_utf8(std::string& out, unsigned code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | (code >> 6));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | (code >> 12));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (code >> 18));
    out += static_cast<char>(0x80 | ((code >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  }
}

class Parser {
 public:
  Parser(std::string_view text, const std::string& name,
         std::vector<std::string>& problems)
      : text_(text), name_(name), problems_(problems) {}

  JsonNode parse() {
    if (const auto bad = first_invalid_utf8(text_)) {
      at_ = *bad;
      fail("is not valid UTF-8 here");
    }
    if (text_.starts_with("\xEF\xBB\xBF")) {
      fail("starts with a byte order mark; save it as UTF-8 without one");
    }
    skip_space();
    JsonNode root = value(0);
    skip_space();
    if (at_ < text_.size()) {
      fail(concat("has ", found(), " after the end of the JSON value"));
    }
    return root;
  }

 private:
  // Line and column count from 1; a column is a character, not a byte.
  std::string origin(std::size_t at) const {
    std::size_t line = 1;
    std::size_t column = 1;
    for (const char c : text_.substr(0, at)) {
      if (c == '\n') {
        ++line;
        column = 1;
      } else if ((static_cast<unsigned char>(c) & 0xC0) != 0x80) {
        ++column;
      }
    }
    return concat(name_, ":", line, ":", column);
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(concat(origin(at_), ": the JSON ", what, "."),
                ExitCode::kUsage);
  }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  std::string found() const {
    if (at_ >= text_.size()) {
      return "the end of the text";
    }
    if (static_cast<unsigned char>(peek()) < 0x20) {
      return concat("a control character (code ",
                    static_cast<int>(static_cast<unsigned char>(peek())), ")");
    }
    std::size_t length = 1;
    while (at_ + length < text_.size() &&
           (static_cast<unsigned char>(text_[at_ + length]) & 0xC0) == 0x80) {
      ++length;
    }
    return concat("'", text_.substr(at_, length), "'");
  }

  void skip_space() {
    while (peek() == ' ' || peek() == '\t' || peek() == '\n' ||
           peek() == '\r') {
      ++at_;
    }
    if (peek() == '/' || peek() == '#') {
      fail("has a comment; comments are not part of JSON");
    }
  }

  JsonNode value(int depth) {
    if (depth > kDeepest) {
      fail(concat("is nested more than ", kDeepest, " levels deep"));
    }
    JsonNode node;
    node.origin = origin(at_);
    const char c = peek();
    if (c == '{') {
      node.type = JsonNode::Type::kObject;
      object(node, depth);
    } else if (c == '[') {
      node.type = JsonNode::Type::kList;
      list(node, depth);
    } else if (c == '"') {
      node.type = JsonNode::Type::kString;
      node.text = string();
    } else if (c == '-' || is_digit(c)) {
      node.type = JsonNode::Type::kNumber;
      node.text = number();
    } else if (word("true") || word("false")) {
      node.type = JsonNode::Type::kBoolean;
      node.boolean = c == 't';
    } else if (!word("null")) {
      fail(concat("has ", found(),
                  " where a value was expected: an object, a list, a string in "
                  "double quotes, a finite number, true, false or null"));
    }
    return node;
  }

  bool word(std::string_view expected) {
    if (!text_.substr(at_).starts_with(expected)) {
      return false;
    }
    at_ += expected.size();
    return true;
  }

  void object(JsonNode& node, int depth) {
    ++at_;
    skip_space();
    if (peek() == '}') {
      ++at_;
      return;
    }
    for (;;) {
      if (peek() != '"') {
        fail(concat("has ", found(), " where a key in double quotes was ",
                    "expected", peek() == '}' ? ": remove the comma" : ""));
      }
      JsonMember member;
      member.origin = origin(at_);
      member.name = string();
      skip_space();
      if (peek() != ':') {
        fail(concat("has ", found(), " where ':' was expected after the key \"",
                    member.name, "\""));
      }
      ++at_;
      skip_space();
      member.value = value(depth + 1);
      if (const JsonMember* first = node.find(member.name)) {
        problems_.push_back(
            concat("The key \"", member.name, "\" in ", member.origin,
                   " is a duplicate: it stands in ", first->origin,
                   " already. Keep one of the two."));
      } else {
        node.members.push_back(std::move(member));
      }
      skip_space();
      if (peek() == '}') {
        ++at_;
        return;
      }
      if (peek() != ',') {
        fail(concat("has ", found(), " where ',' or '}' was expected"));
      }
      ++at_;
      skip_space();
    }
  }

  void list(JsonNode& node, int depth) {
    ++at_;
    skip_space();
    if (peek() == ']') {
      ++at_;
      return;
    }
    for (;;) {
      node.items.push_back(value(depth + 1));
      skip_space();
      if (peek() == ']') {
        ++at_;
        return;
      }
      if (peek() != ',') {
        fail(concat("has ", found(), " where ',' or ']' was expected"));
      }
      ++at_;
      skip_space();
    }
  }

  std::string string() {
    const std::size_t start = at_;
    ++at_;
    std::string out;
    for (;;) {
      if (at_ >= text_.size() || peek() == '\n') {
        at_ = start;
        fail("has a string here that does not end");
      }
      const char c = peek();
      if (c == '"') {
        ++at_;
        return out;
      }
      if (static_cast<unsigned char>(c) < 0x20) {
        fail(concat("has ", found(), " in a string; write it as an escape"));
      }
      ++at_;
      if (c == '\\') {
        escape(out);
      } else {
        out += c;
      }
    }
  }

  void escape(std::string& out) {
    constexpr std::string_view kLetters = "\"\\/bfnrt";
    constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    const std::size_t index = kLetters.find(peek());
    if (at_ < text_.size() && index != std::string_view::npos) {
      out += kMeanings[index];
      ++at_;
      return;
    }
    if (peek() != 'u') {
      fail(concat("has the unknown escape '\\' and ", found()));
    }
    ++at_;
    unsigned code = hex4();
    if (code >= 0xD800 && code < 0xDC00) {
      if (!word("\\u")) {
        fail("has half of a surrogate pair");
      }
      const unsigned low = hex4();
      if (low < 0xDC00 || low > 0xDFFF) {
        fail("has half of a surrogate pair");
      }
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    } else if (code >= 0xDC00 && code <= 0xDFFF) {
      fail("has half of a surrogate pair");
    }
    append_utf8(out, code);
  }

  unsigned hex4() {
    unsigned code = 0;
    for (int i = 0; i < 4; ++i) {
      const char c = peek();
      unsigned digit = 0;
      if (is_digit(c)) {
        digit = static_cast<unsigned>(c - '0');
      } else if (c >= 'a' && c <= 'f') {
        digit = static_cast<unsigned>(c - 'a') + 10;
      } else if (c >= 'A' && c <= 'F') {
        digit = static_cast<unsigned>(c - 'A') + 10;
      } else {
        fail(concat("has ", found(), " in a \\u escape of four digits"));
      }
      code = code * 16 + digit;
      ++at_;
    }
    return code;
  }

  std::string number() {
    const std::size_t start = at_;
    if (peek() == '-') {
      ++at_;
    }
    const std::size_t first = at_;
    digits("a digit");
    if (text_[first] == '0' && at_ - first > 1) {
      at_ = first;
      fail("has a number that begins with 0");
    }
    if (peek() == '.') {
      ++at_;
      digits("a digit after the point");
    }
    if (peek() == 'e' || peek() == 'E') {
      ++at_;
      if (peek() == '+' || peek() == '-') {
        ++at_;
      }
      digits("a digit of the exponent");
    }
    return std::string(text_.substr(start, at_ - start));
  }

  void digits(std::string_view expected) {
    if (!is_digit(peek())) {
      fail(concat("has ", found(), " where ", expected, " was expected"));
    }
    while (is_digit(peek())) {
      ++at_;
    }
  }

  std::string_view text_;
  const std::string& name_;
  std::vector<std::string>& problems_;
  std::size_t at_ = 0;
};

}  // namespace

const JsonMember* JsonNode::find(std::string_view name) const {
  const auto found = std::find_if(
      members.begin(), members.end(),
      [&](const JsonMember& member) { return member.name == name; });
  return found == members.end() ? nullptr : &*found;
}

JsonMember* JsonNode::find(std::string_view name) {
  return const_cast<JsonMember*>(std::as_const(*this).find(name));
}

JsonNode parse_json(std::string_view text, const std::string& name,
                    std::vector<std::string>& problems) {
  return Parser(text, name, problems).parse();
}

std::string quoted(const std::string& text) {
  // Configurations that code builds may hold what is no UTF-8.
  return nlohmann::json(text).dump(-1, ' ', false,
                                   nlohmann::json::error_handler_t::replace);
}

std::string describe(const JsonNode& node) {
  switch (node.type) {
    case JsonNode::Type::kNull:
      return "null";
    case JsonNode::Type::kBoolean:
      return node.boolean ? "true" : "false";
    case JsonNode::Type::kNumber:
      return node.text;
    case JsonNode::Type::kString:
      return quoted(node.text);
    case JsonNode::Type::kList:
      return node.items.empty() ? "an empty list" : "a list";
    case JsonNode::Type::kObject:
      return "an object";
  }
  return "";
}

}  // namespace osdn::config
