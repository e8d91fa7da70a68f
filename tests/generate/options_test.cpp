// Options and prompts that are refused before any model is looked for.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "osdn/generate/generation.h"
#include "osdn/generate/prompts.h"
#include "support/temp_dir.h"

namespace osdn::generate {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

template <typename Call>
std::string message_of(ExitCode code, const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "";
}

TEST(GenerateOptions, those_out_of_range_are_named) {
  using Change = std::function<void(GenerateOptions&)>;
  const std::vector<std::pair<Change, std::string>> cases = {
      {[](auto& o) { o.model.clear(); }, "--model is missing"},
      {[](auto& o) { o.top_p = 1.5; }, "--top-p is 1.5; expected above 0"},
      {[](auto& o) { o.top_p = 0.0; }, "--top-p is 0"},
      {[](auto& o) { o.top_k = -1; }, "--top-k is -1"},
      {[](auto& o) { o.temperature = -1; }, "--temperature is -1"},
      {[](auto& o) { o.temperature = std::nan(""); }, "--temperature is nan"},
      {[](auto& o) { o.repetition_penalty = 0; }, "--repetition-penalty is 0"},
      {[](auto& o) { o.temperature = 0, o.top_k = 5; },
       "--top-k has no effect"},
      {[](auto& o) { o.temperature = 0, o.top_p = 0.5; },
       "--top-p has no effect"},
      {[](auto& o) { o.temperature = 0, o.seed = 5; }, "--seed has no effect"},
      {[](auto& o) {
         o.stops = {"a", ""};
       },
       "a stop string is empty"},
      {[](auto& o) { o.stops = {"\xFF"}; }, "--stop string is not UTF-8"},
      {[](auto& o) { o.max_new_tokens = -1; }, "--max-new-tokens is -1"},
      {[](auto& o) { o.batch = 0; }, "--batch is 0"},
      {[](auto& o) { o.prefill_tokens = 0; }, "--prefill-tokens is 0"},
      {[](auto& o) { o.threads = -1; }, "--threads is -1"},
      {[](auto& o) { o.threads = 1000000; }, "--threads is 1000000"},
      {[](auto& o) { o.dtype = "bf16"; }, "--dtype is \"bf16\""},
      {[](auto& o) { o.bos = "2"; }, "--bos is '2'"},
      {[](auto& o) { o.load_state = "s", o.bos = "1"; },
       "--bos has no effect with --load-state"},
  };
  GenerateOptions sound;
  sound.model = "run";
  EXPECT_EQ(message_of(ExitCode::kUsage, [&] { check_options(sound); }), "");
  for (const auto& [change, message] : cases) {
    GenerateOptions options = sound;
    change(options);
    EXPECT_THAT(message_of(ExitCode::kUsage, [&] { check_options(options); }),
                HasSubstr(message));
  }
}

class Prompts : public testing::Test {
 protected:
  std::vector<std::string> of_file(const std::string& name,
                                   const std::string& content,
                                   const std::string& split = "lines") {
    write_file_atomic(dir_ / name, content);
    return read_prompts({{}, dir_ / name, split, "text"},
                        [] { return std::string(); });
  }
  static std::vector<std::string> of_input(const std::string& text) {
    return read_prompts({}, [&] { return text; });
  }
  test::TempDir dir_;
};

TEST_F(Prompts, come_from_texts_files_or_standard_input) {
  EXPECT_THAT(read_prompts({{"a\n", " b"}}, [] { return std::string("c"); }),
              ElementsAre("a\n", " b"));
  EXPECT_THAT(of_input("one\ntwo\n\n"), ElementsAre("one\ntwo\n"));
  EXPECT_THAT(of_input("one\r\n"), ElementsAre("one"));
  EXPECT_THAT(of_file("p.txt", "one\n two\r\nthree"),
              ElementsAre("one", " two", "three"));
  EXPECT_THAT(of_file("p.txt", "one\ntwo\n", "file"), ElementsAre("one\ntwo"));
  EXPECT_THAT(of_file("p.jsonl", "{\"text\":\"a\\nb\"}\n"),
              ElementsAre("a\nb"));
}

TEST_F(Prompts, those_that_are_none_are_named) {
  const auto bad = [&](const auto& call) {
    return message_of(ExitCode::kBadInput, call);
  };
  EXPECT_THAT(bad([] { read_prompts({{""}}, nullptr); }),
              HasSubstr("--prompt is empty"));
  EXPECT_THAT(bad([] {
                read_prompts({{"x", "a\xFF"}}, nullptr);
              }),
              HasSubstr("--prompt number 2 is not UTF-8: byte 1"));
  EXPECT_THAT(bad([] { of_input("\n"); }),
              HasSubstr("the prompt on standard input is empty"));
  EXPECT_THAT(bad([] { of_input("Gr\xF6"); }), HasSubstr("byte 2"));
  EXPECT_THAT(bad([&] { of_file("gap.txt", "abc\n\nabd\n"); }),
              HasSubstr("gap.txt: the prompt in line 2 is empty"));
  EXPECT_THAT(bad([&] { of_file("latin.txt", "abc\nGr\xF6\n"); }),
              HasSubstr("line 2"));
  EXPECT_THAT(bad([&] { of_file("empty.txt", ""); }),
              HasSubstr("empty.txt holds no prompt"));
  EXPECT_THAT(bad([&] { of_file("key.jsonl", "{\"prompt\":\"x\"}\n"); }),
              HasSubstr("no key \"text\""));
  EXPECT_THAT(bad([&] {
                read_prompts({{}, dir_ / "no.txt", "lines", ""}, nullptr);
              }),
              HasSubstr("no.txt"));
  const auto usage = [&](const auto& call) {
    return message_of(ExitCode::kUsage, call);
  };
  EXPECT_THAT(usage([&] {
                read_prompts({{"x"}, dir_ / "p.txt", "lines", ""}, nullptr);
              }),
              HasSubstr("contradict each other"));
  EXPECT_THAT(usage([&] { of_file("p.txt", "x", "words"); }),
              HasSubstr("split \"words\""));
}

}  // namespace
}  // namespace osdn::generate
