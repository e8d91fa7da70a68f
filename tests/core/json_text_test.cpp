#include "osdn/core/json_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace osdn {
namespace {

/// "key/depth" of each repeated key.
std::string repeated_in(const std::string& text) {
  std::vector<RepeatedKey> repeated;
  EXPECT_EQ(parse_json(text, repeated), nlohmann::json::parse(text));
  std::string all;
  for (const RepeatedKey& one : repeated) {
    all += (all.empty() ? "" : " ") + one.key + "/" + std::to_string(one.depth);
  }
  return all;
}

TEST(JsonText, every_repeated_key_is_found_at_its_depth) {
  EXPECT_EQ(repeated_in("3"), "");
  EXPECT_EQ(
      repeated_in(R"({"a": 1, "b": {"a": 1}, "c": [{"a": 1}, {"a": 2}]})"), "");
  EXPECT_EQ(repeated_in(R"({"a": 1, "a": 1})"), "a/1");
  EXPECT_EQ(repeated_in(R"({"a": 1, "\u0061": 2, "a": 3})"), "a/1 a/1");
  EXPECT_EQ(repeated_in(R"({"": 1, "": 2})"), "/1");
  EXPECT_EQ(repeated_in(R"([{"x": {"k": 1, "y": {}, "k": 2}, "x": 0}])"),
            "k/2 x/1");
}

TEST(JsonText, what_is_no_json_is_thrown_at) {
  std::vector<RepeatedKey> repeated;
  for (const char* text :
       {"", "{", R"({"a" 1})", "{\"a\": \"\xff\"}", "1 2", "1e999"}) {
    EXPECT_THROW(parse_json(text, repeated), nlohmann::json::exception) << text;
  }
}

}  // namespace
}  // namespace osdn
