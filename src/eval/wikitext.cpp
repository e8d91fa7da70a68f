#include "osdn/eval/wikitext.h"

#include <array>
#include <utility>

#include "osdn/eval/python_text.h"

namespace osdn::eval {

namespace {

bool is_heading(std::string_view line) {
  const std::string joined =
      replace_all(replace_all(line, "= = =", "==="), "= =", "==");
  const std::string_view bare = strip(joined);
  return bare.starts_with("= ") && bare.ends_with(" =");
}

// White space just inside each pair goes. No nesting: the first opener pairs
// with the first closer.
std::string tighten_pairs(std::string_view text, char opener, char closer) {
  std::string out;
  while (!text.empty()) {
    const std::size_t open = text.find(opener);
    const std::size_t close =
        open == std::string_view::npos ? open : text.find(closer, open + 1);
    if (close == std::string_view::npos) {
      break;
    }
    out += text.substr(0, open + 1);
    out += strip(text.substr(open + 1, close - open - 1));
    out += closer;
    text.remove_prefix(close + 1);
  }
  out += text;
  return out;
}

using Replacements = std::pair<std::string_view, std::string_view>;

constexpr std::array<Replacements, 10> kBeforePairs = {{
    {"s '", "s'"},
    {" @-@ ", "-"},
    {" @,@ ", ","},
    {" @.@ ", "."},
    {" : ", ": "},
    {" ; ", "; "},
    {" . ", ". "},
    {" ! ", "! "},
    {" ? ", "? "},
    {" , ", ", "},
}};

constexpr std::array<std::pair<char, char>, 5> kPairs = {
    {{'(', ')'}, {'[', ']'}, {'{', '}'}, {'"', '"'}, {'\'', '\''}}};

constexpr std::array<Replacements, 8> kAfterPairs = {{
    {"= = = =", "===="},
    {"= = =", "==="},
    {"= =", "=="},
    {" \u00B0 ", "\u00B0"},
    {" \n", "\n"},
    {"\n ", "\n"},
    {" N ", " 1 "},
    {" 's", "'s"},
}};

}  // namespace

std::vector<std::string> split_wikitext(std::string_view raw) {
  std::vector<std::string> documents;
  std::string document;
  bool first_line = true;
  const auto finish = [&] {
    if (!strip(document).empty()) {
      documents.push_back(document);
    }
    document.clear();
    first_line = true;
  };
  for (const std::string_view line : split_at(raw, "\n")) {
    if (is_heading(line)) {
      finish();
    }
    document += first_line ? "" : "\n";
    document += line;
    first_line = false;
  }
  finish();
  return documents;
}

std::int64_t count_words(std::string_view document) {
  return static_cast<std::int64_t>(split_at_white_space(document).size());
}

std::string detokenise_wikitext(std::string_view document) {
  std::string text(document);
  for (const auto& [from, to] : kBeforePairs) {
    text = replace_all(text, from, to);
  }
  for (const auto& [opener, closer] : kPairs) {
    text = tighten_pairs(text, opener, closer);
  }
  for (const auto& [from, to] : kAfterPairs) {
    text = replace_all(text, from, to);
  }
  return text;
}

}  // namespace osdn::eval
