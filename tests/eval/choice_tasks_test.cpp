// The multiple-choice tasks: what they ask, in both layouts of their files, and
// how answers become scores.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "eval/prepared_task.h"
#include "osdn/core/concat.h"
#include "osdn/eval/multiple_choice.h"
#include "support/message_of.h"

namespace osdn::eval {
namespace {

using nlohmann::json;
using test::prepared_from;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

/// "context|continuation" of each request.
std::vector<std::string> asked(const PreparedTask& task) {
  std::vector<std::string> all;
  for (const Request& request : task.batch.requests) {
    all.push_back(request.context + "|" + request.continuation);
  }
  return all;
}

std::string error_of(const std::string& task, const std::string& rows) {
  return test::message_of([&] { prepared_from(task, rows); },
                          ExitCode::kBadInput);
}

struct Sample {
  const char* task;
  const char* published;
  const char* local;  ///< another layout of the same row; may be null
  std::vector<std::string> asked;
  std::string label;
};

// eval.md 4, row by row of its table.
const std::vector<Sample>& samples() {
  static const std::vector<Sample> all = {
      {"piqa",
       R"({"goal": "Dry it", "sol1": "fan ", "sol2": " sun", "label": 1})",
       nullptr,
       {"Question: Dry it\nAnswer:| fan ", "Question: Dry it\nAnswer:|  sun"},
       " sun"},
      {"winogrande",
       R"({"sentence": "Ann met Eva so _ was glad. ", "option1": "Ann",
           "option2": "Eva", "answer": "2"})",
       R"({"context_options": ["Ann met Eva so Ann", "Ann met Eva so Eva"],
           "continuation": "was glad.", "gold": 1})",
       {"Ann met Eva so Ann| was glad.", "Ann met Eva so Eva| was glad."},
       "was glad."},
      {"arc_easy",
       R"({"question": "Why?", "choices": {"text": ["a", "b", "c"],
           "label": ["1", "2", "3"]}, "answerKey": "3"})",
       R"({"question": "Why?", "choices": ["a", "b", "c"], "gold": 2})",
       {"Question: Why?\nAnswer:| a", "Question: Why?\nAnswer:| b",
        "Question: Why?\nAnswer:| c"},
       "c"},
      {"arc_challenge",
       R"({"question": "Q", "choices": {"text": ["a", "b"],
           "label": ["A", "B"]}, "answerKey": "B"})",
       R"({"question": "Q", "choices": ["a", "b"], "gold": 1})",
       {"Question: Q\nAnswer:| a", "Question: Q\nAnswer:| b"},
       "b"},
      {"openbookqa",
       R"({"question_stem": "Fog is", "choices": {"text": ["wet", "dry"],
           "label": ["A", "B"]}, "answerKey": "A"})",
       R"({"query": "Fog is", "choices": ["wet", "dry"], "gold": 0})",
       {"Fog is| wet", "Fog is| dry"},
       "wet"},
      {"boolq",
       R"({"passage": "T -- p.", "question": "is it", "label": 1})",
       nullptr,
       {"T -- p.\nQuestion: is it?\nAnswer:| no",
        "T -- p.\nQuestion: is it?\nAnswer:| yes"},
       "yes"},
      {"social_iqa",
       R"({"context": "Jo ran.", "question": "Why?", "answerA": "x",
           "answerB": "y", "answerC": "z", "label": "1"})",
       R"({"context_question": "Jo ran. Why?", "answers": ["x", "y", "z"],
           "gold": 0})",
       {"Q: Jo ran. Why?\nA:| x", "Q: Jo ran. Why?\nA:| y",
        "Q: Jo ran. Why?\nA:| z"},
       "x"},
      {"sciq",
       R"({"support": " s ", "question": "q", "correct_answer": "c",
           "distractor1": "1", "distractor2": "2", "distractor3": "3"})",
       nullptr,
       {"s \nQuestion: q\nAnswer:| 1", "s \nQuestion: q\nAnswer:| 2",
        "s \nQuestion: q\nAnswer:| 3", "s \nQuestion: q\nAnswer:| c"},
       "c"},
      {"hellaswag",
       R"({"activity_label": "Ice", "ctx_a": "A man [x] sits.",
           "ctx_b": "he Skis [title] Down", "label": "1",
           "endings": [" [step] goes.", "a  b   c"]})",
       nullptr,
       {"Ice: A man sits. He skis. down|  goes.",
        "Ice: A man sits. He skis. down| a b  c"},
       "a b  c"}};
  return all;
}

std::string one_line(std::string row) {
  for (char& c : row) c = c == '\n' ? ' ' : c;
  return row + "\n";
}

/// The rows of samples(), and the layout of hellaswag that has no published
/// twin.
std::vector<std::pair<std::string, json>> sound_rows() {
  std::vector<std::pair<std::string, json>> rows = {
      {"hellaswag",
       json::parse(R"({"query": "A", "choices": ["b", "c"], "gold": 0})")}};
  for (const Sample& sample : samples()) {
    for (const char* row : {sample.published, sample.local}) {
      if (row) rows.emplace_back(sample.task, json::parse(row));
    }
  }
  return rows;
}

TEST(ChoiceTasks, ask_what_is_published_in_both_layouts) {
  for (const Sample& sample : samples()) {
    SCOPED_TRACE(sample.task);
    for (const char* row : {sample.published, sample.local}) {
      if (!row) continue;
      const PreparedTask task = prepared_from(sample.task, one_line(row));
      EXPECT_EQ(asked(task), sample.asked);
      EXPECT_EQ(task.batch.requests.front().label, sample.label);
      EXPECT_THAT(task.batch.requests.front().place, HasSubstr("rows.jsonl:1"));
      EXPECT_EQ(task.batch.bos, false);
      EXPECT_EQ(task.name, "");
    }
  }
}

// ARC has rows with letters and rows with numbers: the key's place counts.
TEST(ChoiceTasks, the_key_is_looked_for_among_the_labels) {
  const PreparedTask task = prepared_from(
      "arc_easy",
      R"({"question": "Q", "choices": {"text": ["a", "b"], "label": ["B", "A"]}, "answerKey": "A"})"
      "\n");
  EXPECT_EQ(task.batch.requests[0].label, "b");
  EXPECT_THAT(
      error_of(
          "arc_easy",
          R"({"question": "Q", "choices": {"text": ["a", "b"], "label": ["A", "B"]}, "answerKey": "1"})"
          "\n"),
      AllOf(HasSubstr("rows.jsonl:1"), HasSubstr("answerKey \"1\"")));
}

// The 2,000 local rows are no published HellaSwag.
TEST(ChoiceTasks, prebuilt_hellaswag_is_named_so) {
  EXPECT_EQ(prepared_from("hellaswag",
                          R"({"query": "A", "choices": ["b", "c"], "gold": 0})"
                          "\n")
                .name,
            "hellaswag_2000");
}

TEST(ChoiceTasks, layouts_with_names_of_their_own_do_not_mix) {
  std::string rows;
  for (const auto& [task, row] : sound_rows()) {
    if (task == "hellaswag") rows += row.dump() + "\n";
  }
  EXPECT_THAT(error_of("hellaswag", rows),
              HasSubstr("rows.jsonl:2: this row has another layout"));
}

TEST(ChoiceTasks, rows_that_are_not_sound_are_named) {
  const std::string good =
      R"({"goal": "g", "sol1": "a", "sol2": "b", "label": 0})"
      "\n";
  EXPECT_THAT(error_of("piqa", good + R"({"goal": "g", "sol1": "a"})"),
              AllOf(HasSubstr("rows.jsonl:2"), HasSubstr("\"sol2\""),
                    HasSubstr("goal, sol1")));
  EXPECT_THAT(
      error_of("piqa",
               good + R"({"goal": "g", "sol1": "a", "sol2": "b", "label": 2})"),
      AllOf(HasSubstr("rows.jsonl:2"), HasSubstr("\"label\" is 2"),
            HasSubstr("0 to 1")));
  EXPECT_THAT(
      error_of("piqa", R"({"goal": 3, "sol1": "a", "sol2": "b", "label": 0})"),
      AllOf(HasSubstr("rows.jsonl:1"), HasSubstr("\"goal\" is a number")));
  EXPECT_THAT(error_of("piqa", good + "{\"goal\": \n"),
              AllOf(HasSubstr("rows.jsonl:2"), HasSubstr("not JSON")));
  EXPECT_THAT(error_of("piqa", "[1]\n"), HasSubstr("found one array"));
  EXPECT_THAT(error_of("piqa", ""), HasSubstr("holds no row"));
  EXPECT_THAT(error_of("winogrande", R"({"sentence": "no gap", "option1": "a",)"
                                     R"( "option2": "b", "answer": "1"})"),
              HasSubstr("no gap"));
  EXPECT_THAT(error_of("social_iqa",
                       R"({"context": "c", "question": "q", "answerA": "x",)"
                       R"( "answerB": "y", "answerC": "z", "label": "4"})"),
              HasSubstr("1, 2 or 3"));
  EXPECT_THAT(
      error_of("openbookqa", R"({"query": "q", "choices": ["a"], "gold": 0})"),
      HasSubstr("1 choices"));
}

TEST(ChoiceTasks, values_that_could_mean_several_things_are_refused) {
  EXPECT_THAT(
      error_of("piqa",
               R"({"goal": "g", "sol1": "a", "sol2": "b", "label": true})"),
      HasSubstr("\"label\" is true"));
  EXPECT_THAT(
      error_of("openbookqa",
               R"({"question_stem": "q", "choices": {"text": ["x", "y"],)"
               R"( "label": ["A", "A"]}, "answerKey": "A"})"),
      HasSubstr("more than once"));
  EXPECT_THAT(error_of("openbookqa",
                       R"({"query": "q", "choices": ["x", 3], "gold": 0})"),
              HasSubstr("entry 1 is 3"));
  EXPECT_THAT(
      error_of("openbookqa", R"({"query": "q", "choices": [], "gold": 0})"),
      HasSubstr("no choice"));
  // BoolQ's questions are answered by yes and no.
  for (const char* label : {"true", "1"}) {
    const auto row =
        concat(R"({"passage": "p", "question": "q", "label": )", label, "}");
    EXPECT_NO_THROW(prepared_from("boolq", row)) << label;
  }
}

TEST(ChoiceTasks, a_field_that_is_missing_is_the_one_that_is_named) {
  for (const auto& [task, row] : sound_rows()) {
    const std::string good = row.dump() + "\n";
    prepared_from(task, good);
    for (const auto& field : row.items()) {
      json without = row;
      without.erase(field.key());
      EXPECT_THAT(error_of(task, good + without.dump()),
                  AllOf(HasSubstr("rows.jsonl:2: there is "),
                        HasSubstr(concat("\"", field.key(), "\""))))
          << task << " without " << field.key();
    }
    EXPECT_THAT(error_of(task, R"({"id": 3})"), HasSubstr("the row has id"));
  }
}

TEST(ChoiceTasks, a_field_of_another_type_is_the_one_that_is_named) {
  for (const auto& [task, row] : sound_rows()) {
    for (const auto& field : row.items()) {
      json other = row;
      other[field.key()] = nullptr;
      EXPECT_THAT(error_of(task, other.dump()),
                  AllOf(HasSubstr("rows.jsonl:1: "),
                        HasSubstr(concat("\"", field.key(), "\""))))
          << task << ", " << field.key();
    }
  }
}

TEST(ChoiceTasks, a_field_that_is_there_twice_is_refused) {
  for (const auto& [task, row] : sound_rows()) {
    const std::string good = row.dump();
    for (const auto& field : row.items()) {
      const std::string again =
          concat("{", json(field.key()).dump(), ":", field.value().dump(), ",",
                 good.substr(1));
      EXPECT_THAT(error_of(task, concat(good, "\n\n", again, "\n")),
                  HasSubstr(concat("rows.jsonl:3: field \"", field.key(),
                                   "\" is there more than once")))
          << task;
    }
  }
  // Further in, too.
  EXPECT_THAT(error_of("openbookqa",
                       R"({"question": "Q", "answerKey": "A", "choices": )"
                       R"({"text": ["a", "b"], "text": ["c", "d"], )"
                       R"("label": ["A", "B"]}})"),
              HasSubstr("field \"text\" is there more than once"));
}

TEST(ChoiceTasks, a_number_that_is_too_large_is_no_other_number) {
  for (const char* label : {"18446744073709551616", "18446744073709551617",
                            "9223372036854775808", "1e999"}) {
    const std::string error = error_of(
        "piqa", concat(R"({"goal": "g", "sol1": "a", "sol2": "b", "label": )",
                       label, "}"));
    EXPECT_THAT(error, HasSubstr("rows.jsonl:1: ")) << label;
    EXPECT_THAT(error, testing::AnyOf(HasSubstr("expected a whole number"),
                                      HasSubstr("not JSON")));
  }
}

std::vector<Answer> with_sums(const std::vector<double>& sums) {
  std::vector<Answer> answers;
  for (const double sum : sums) answers.push_back({.log_likelihood = sum});
  return answers;
}

double value_of(const Scores& scores, const std::string& name) {
  for (const Metric& metric : scores.metrics) {
    if (metric.name == name) return metric.value;
  }
  ADD_FAILURE() << "no " << name;
  return 0;
}

// Three ways to choose, each right alone: by the sum, per code point, per byte;
// the space in front of a choice is not counted.
TEST(ChoiceTasks, normalise_by_characters_or_bytes_without_the_space) {
  const auto gold = [](int label) {
    return prepared_from(
        "piqa", std::string(R"({"goal": "g", "sol1": "ab", "sol2": "ééé",)") +
                    R"( "label": )" + std::to_string(label) + "}\n");
  };
  // Sums -4 and -5; per code point -2 and -1.67; per byte -2 and -0.83.
  const auto answers = with_sums({-4, -5});
  EXPECT_EQ(value_of(gold(0).score(answers), "acc"), 1);
  EXPECT_EQ(value_of(gold(1).score(answers), "acc"), 0);
  EXPECT_EQ(value_of(gold(1).score(answers), "acc_norm"), 1);
  // Per code point -2 and -3, per byte -2 and -1.5.
  const auto other = with_sums({-4, -9});
  EXPECT_EQ(value_of(gold(0).score(other), "acc_norm"), 1);
  EXPECT_EQ(value_of(gold(1).score(other), "acc_bytes"), 1);
}

TEST(ChoiceTasks, of_equal_choices_the_first_wins) {
  const PreparedTask task = prepared_from(
      "piqa", R"({"goal": "g", "sol1": "ab", "sol2": "cd", "label": 0})"
              "\n"
              R"({"goal": "g", "sol1": "ab", "sol2": "cd", "label": 1})"
              "\n");
  const Scores scores = task.score(with_sums({-1, -1, -1, -1}));
  EXPECT_EQ(value_of(scores, "acc"), 0.5);
  EXPECT_EQ(value_of(scores, "acc_norm"), 0.5);
  EXPECT_THAT(scores.rows, ElementsAre(1, 1, 0, 0));
  // Deviation (n - 1) of {1, 0} over sqrt 2.
  EXPECT_DOUBLE_EQ(scores.metrics[0].standard_error.value(),
                   std::sqrt(0.5) / std::sqrt(2.0));
}

TEST(ChoiceTasks, an_empty_choice_is_counted_and_never_wins_by_length) {
  const PreparedTask task = prepared_from(
      "piqa", R"({"goal": "g", "sol1": "", "sol2": "cd", "label": 1})"
              "\n");
  EXPECT_EQ(task.no_label, 1);
  const Scores scores = task.score(with_sums({-1, -2}));
  EXPECT_EQ(value_of(scores, "acc"), 0);
  EXPECT_EQ(value_of(scores, "acc_norm"), 1);
}

// Nothing is asked where every choice is blank.
TEST(ChoiceTasks, a_row_of_blank_choices_is_refused) {
  const std::vector<std::pair<const char*, const char*>> rows = {
      {"piqa", R"({"goal": "g", "sol1": "", "sol2": "", "label": 0})"},
      {"piqa", R"({"goal": "g", "sol1": " ", "sol2": "\t", "label": 0})"},
      {"winogrande",
       R"({"sentence": "Ann met _", "option1": "A", "option2": "B",
           "answer": "1"})"},
      {"arc_easy", R"({"question": "Q", "choices": ["", ""], "gold": 1})"},
      {"openbookqa",
       R"({"question_stem": "Q", "choices": {"text": ["", ""],
           "label": ["A", "B"]}, "answerKey": "A"})"},
      {"social_iqa",
       R"({"context": "c", "question": "q", "answerA": "", "answerB": "",
           "answerC": "", "label": "1"})"},
      {"sciq",
       R"({"support": "s", "question": "q", "correct_answer": "",
           "distractor1": "", "distractor2": "", "distractor3": ""})"},
      {"hellaswag", R"({"query": "A", "choices": ["", " "], "gold": 0})"},
      {"hellaswag",
       R"({"activity_label": "Ice", "ctx_a": "A", "ctx_b": "b", "label": "1",
           "endings": ["[step]", ""]})"}};
  for (const auto& [task, row] : rows) {
    EXPECT_THAT(error_of(task, "\n" + one_line(row)),
                HasSubstr("rows.jsonl:2: every choice is blank"))
        << task;
  }
}

TEST(ChoiceTasks, solved_examples_stand_in_front) {
  const osdn::test::TempDir dir;
  const std::string row =
      R"({"goal": "g", "sol1": "a", "sol2": "b", "label": 1})"
      "\n";
  write_file_atomic(dir / "piqa.jsonl", row);
  write_file_atomic(dir / "shots.jsonl", row + row);
  EvalOptions options;
  options.data.inputs = {dir.path()};
  options.shots = 2;
  options.shots_file = dir / "shots.jsonl";
  const std::string one = "Question: g\nAnswer: b\n\n";
  EXPECT_EQ(test::prepared("piqa", options)[0].batch.requests[0].context,
            one + one + "Question: g\nAnswer:");
  options.shots = 3;
  EXPECT_THAT(test::message_of([&] { test::prepared("piqa", options); },
                               ExitCode::kBadInput),
              AllOf(HasSubstr("has 2 rows"), HasSubstr("--shots is 3")));
}

}  // namespace
}  // namespace osdn::eval
