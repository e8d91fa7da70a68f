#include <algorithm>
#include <array>
#include <utility>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/eval/jrt.h"
#include "osdn/eval/python_text.h"

namespace osdn::eval {
namespace {

constexpr std::array<std::pair<JrtSet, std::string_view>, 6> kNames = {
    {{JrtSet::kFda, "fda"},
     {JrtSet::kSwde, "swde"},
     {JrtSet::kSquad, "squad"},
     {JrtSet::kNq, "nq"},
     {JrtSet::kTriviaqa, "triviaqa"},
     {JrtSet::kDrop, "drop"}}};

void need(const JrtDocument& document, std::string_view field,
          std::string_view value) {
  if (value.empty()) {
    throw Error(concat(document.place, ": \"", field,
                       "\" is empty; the prompt asks with it"),
                ExitCode::kBadInput);
  }
}

/// Cuts `query` off the text's end as often as it stands there.
std::string_view without_trailing(std::string_view text,
                                  std::string_view query) {
  const std::size_t length = code_point_length(query);
  while (ends_with_ignoring_case(text, query)) {
    const std::size_t all = code_point_length(text);
    text = slice(text, 0, all - std::min(all, length));
  }
  return text;
}

std::string with_full_stop(std::string_view text) {
  return concat(text, text.ends_with(".") ? "" : ".");
}

std::string read_twice(const std::string& body, const std::string& key) {
  return concat("Information about ", strip(key, ":"), ". ", body, "\n", body,
                " ", key, ":");
}

std::string fda_body(std::string_view text) {
  return with_full_stop(strip(strip(text, "\n"), "."));
}

std::string swde_body_once(std::string_view text) {
  text = strip(strip(strip(strip(text, "\n")), "\n"));
  return concat(strip(text, "."), ".");
}

std::string swde_body_twice(std::string_view text) {
  text = strip(strip(strip(text, "\n"), "."));
  return with_full_stop(strip(strip(text, "\n")));
}

std::string attribute_prompt(JrtSet set, bool twice,
                             const JrtDocument& document) {
  need(document, "key", document.key);
  const std::string_view text =
      without_trailing(document.text, document.key + ":");
  const std::string key = upper_first(document.key);
  const std::string body = set == JrtSet::kFda ? fda_body(text)
                           : twice             ? swde_body_twice(text)
                                               : swde_body_once(text);
  return twice ? read_twice(body, key) : concat(body, " ", key, ":");
}

std::string squad_prompt(bool twice, const JrtDocument& document) {
  const std::string_view text = strip(document.text);
  if (!twice) return std::string(text);
  need(document, "question", document.question);
  const std::string_view context =
      split_at(document.context, "Question:").front();
  return concat(document.question, " ", context, "\n", text);
}

std::string question_prompt(JrtSet set, bool twice,
                            const JrtDocument& document) {
  const std::string_view question = strip(document.question);
  need(document, "question", question);
  std::string context(strip(document.context));
  if (set == JrtSet::kTriviaqa) {
    for (const char* marker : {"[PAR]", "[DOC]", "[TLE]"}) {
      context = replace_all(context, marker, "");
    }
  }
  std::string_view body = context;
  if (twice || set != JrtSet::kNq) body = without_trailing(body, question);
  if (!twice) {
    body = strip(body);
    if (body.ends_with(question)) body.remove_suffix(question.size());
    return concat(strip(strip(body), "."), ". ", question);
  }
  const std::string once = concat(strip(strip(strip(body), ".")), ".");
  return concat(strip(document.orig_question, ":"), " ", once, "\n", once, " ",
                question);
}

}  // namespace

std::optional<JrtSet> jrt_set_from_name(std::string_view name) {
  for (const auto& [set, spelling] : kNames) {
    if (spelling == name) return set;
  }
  return std::nullopt;
}

std::vector<std::string> jrt_labels(JrtSet set, const JrtDocument& document) {
  const bool has_value =
      set == JrtSet::kFda || set == JrtSet::kSwde || set == JrtSet::kSquad;
  return has_value ? std::vector<std::string>{document.value}
                   : document.answers;
}

std::string jrt_prompt(JrtSet set, bool twice, const JrtDocument& document) {
  switch (set) {
    case JrtSet::kFda:
    case JrtSet::kSwde:
      return attribute_prompt(set, twice, document);
    case JrtSet::kSquad:
      return squad_prompt(twice, document);
    default:
      return question_prompt(set, twice, document);
  }
}

std::string osdn_authors_prompt(JrtSet set, bool twice,
                                const JrtDocument& document) {
  if (set == JrtSet::kSquad) return document.text;
  need(document, "key", document.key);
  const std::string body = fda_body(document.text);
  const std::string key = upper_first(document.key);
  // The text of swde was doubled before it was cut.
  return twice && set == JrtSet::kFda ? read_twice(body, key)
                                      : concat(body, " ", key, ":");
}

bool contains_label(std::string_view output,
                    const std::vector<std::string>& labels) {
  return std::any_of(labels.begin(), labels.end(),
                     [output](const std::string& label) {
                       return find_ignoring_case(output, label).has_value();
                     });
}

}  // namespace osdn::eval
