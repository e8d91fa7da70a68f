#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "osdn/config/reader.h"
#include "osdn/core/error.h"

namespace osdn::config {
namespace {

using ::testing::HasSubstr;

// The message of the Error that parsing throws.
std::string refusal(const std::string& text,
                    const std::vector<std::string>& overrides = {}) {
  try {
    parse(text, "my.json", overrides);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    return error.what();
  }
  ADD_FAILURE() << "accepted: " << text;
  return "";
}

TEST(JsonDocument, syntax_errors_have_line_and_column) {
  const struct {
    std::string text;
    std::string expected;
  } cases[] = {
      {"{\n  \"run_dir\": \"x\",\n}",
       "my.json:3:1: the JSON has '}' where a "
       "key in double quotes was expected: "
       "remove the comma."},
      {"{\"a\": 1 \"b\": 2}",
       "my.json:1:9: the JSON has '\"' where ',' or "
       "'}' was expected."},
      {"{\"a\" 1}", "where ':' was expected after the key \"a\""},
      {"{\"a\": [1 2]}", "where ',' or ']' was expected"},
      {"{\"a\": [1,]}", "my.json:1:10: the JSON has ']' where a value"},
      {"", "my.json:1:1: the JSON has the end of the text where a value"},
      {"{\"a\": 1", "my.json:1:8: the JSON has the end of the text where ','"},
      {"{} {}", "my.json:1:4: the JSON has '{' after the end"},
      {"{\n // why\n}", "my.json:2:2: the JSON has a comment"},
      {"{ # why\n}", "has a comment"},
      {"{} // why", "has a comment"},
      {"{'a': 1}", "has ''' where a key in double quotes"},
      {"{\"a\": NaN}", "my.json:1:7: the JSON has 'N' where a value"},
      {"{\"a\": -Infinity}", "has 'I' where a digit was expected"},
      {"{\"a\": 01}", "has a number that begins with 0"},
      {"{\"a\": 1.}", "where a digit after the point was expected"},
      {"{\"a\": .5}", "has '.' where a value"},
      {"{\"a\": 1e}", "where a digit of the exponent was expected"},
      {"{\"a\": +1}", "has '+' where a value"},
      {"{\"a\": tru}", "has 't' where a value"},
      {"{\"a\": \"b\n\"}",
       "my.json:1:7: the JSON has a string here that does "
       "not end"},
      {"{\"a\": \"b\tc\"}", "has a control character (code 9) in a string"},
      {"{\"a\": \"\\x\"}", "unknown escape"},
      {"{\"a\": \"\\u12g4\"}", "has 'g' in a \\u escape"},
      {"{\"a\": \"\\ud800\"}", "half of a surrogate pair"},
      {"{\"a\": \"\\udc00\"}", "half of a surrogate pair"},
      {"{\"a\": \"\xFF\"}", "my.json:1:8: the JSON is not valid UTF-8"},
      {"\xEF\xBB\xBF{}", "byte order mark"},
      // Columns count characters.
      {"{\"\xC3\xA9\xC3\xA9\": x}", "my.json:1:8: the JSON has 'x'"},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_THAT(refusal(text), HasSubstr(expected)) << text;
  }
}

TEST(JsonDocument, deep_nesting_is_an_error_and_no_crash) {
  EXPECT_THAT(refusal(std::string(100000, '[')), HasSubstr("levels deep"));
}

TEST(JsonDocument, the_top_must_be_an_object) {
  EXPECT_THAT(refusal("[1]"), HasSubstr("is a list, but must be an object"));
  EXPECT_THAT(refusal("3", {"run_dir=x"}), HasSubstr("is 3, but must be"));
}

}  // namespace
}  // namespace osdn::config
