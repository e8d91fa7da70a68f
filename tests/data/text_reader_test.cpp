#include "osdn/data/text_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zstd.h>

#include "data_fixture.h"
#include "osdn/core/file.h"
#include "osdn/core/random.h"

namespace osdn::data {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string zstd(const std::string& text) {
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  packed.resize(
      ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 3));
  return packed;
}

std::vector<std::string> texts_of(const fs::path& path,
                                  const TextOptions& options = {}) {
  TextReader reader({path}, options);
  std::vector<std::string> texts;
  while (const auto document = reader.next()) {
    texts.push_back(reader.text_of(*document));
  }
  EXPECT_EQ(reader.bytes_done(), reader.bytes_total());
  return texts;
}

TextOptions split(std::string_view spelling) {
  TextOptions options;
  set_split(options, spelling);
  return options;
}

class TextReaderTest : public ::testing::Test {
 protected:
  fs::path write(std::string_view name, const std::string& content) {
    put_file(dir_ / name, content);
    return dir_ / name;
  }
  std::vector<std::string> split_text(const std::string& content,
                                      std::string_view spelling) {
    return texts_of(write("t.txt", content), split(spelling));
  }

  test::TempDir dir_;
};

TEST_F(TextReaderTest, split_file) {
  EXPECT_THAT(split_text("a\r\n\nb\n", "file"), ElementsAre("a\r\n\nb\n"));
  EXPECT_THAT(split_text("no end", "file"), ElementsAre("no end"));
  EXPECT_THAT(split_text("", "file"), ElementsAre(""));
}

TEST_F(TextReaderTest, split_lines) {
  EXPECT_THAT(split_text("a\r\n\n b \nlast", "lines"),
              ElementsAre("a", "", " b ", "last"));
  EXPECT_THAT(split_text("a\n", "lines"), ElementsAre("a"));
  EXPECT_THAT(split_text("", "lines"), ElementsAre());
}

TEST_F(TextReaderTest, split_blank_lines) {
  EXPECT_THAT(split_text("\n \t\na\nb\n\n\r\nc\r\nd\r\n\r\n", "blank-lines"),
              ElementsAre("a\nb", "c\r\nd"));
  EXPECT_THAT(split_text("one", "blank-lines"), ElementsAre("one"));
  EXPECT_THAT(split_text("\n\n", "blank-lines"), ElementsAre());
}

TEST_F(TextReaderTest, split_marker) {
  EXPECT_THAT(split_text("a\n==\nb\nc\n==\n", "marker:=="),
              ElementsAre("a", "b\nc"));
  EXPECT_THAT(split_text("a==b====c\r\n==\r\nd", "marker:=="),
              ElementsAre("a", "b", "", "c", "d"));
  EXPECT_THAT(split_text("==a\n\n==\n\nb\n", "marker:=="),
              ElementsAre("", "a\n", "\nb\n"));
  EXPECT_THAT(split_text("no marker\n", "marker:=="),
              ElementsAre("no marker\n"));
  EXPECT_THAT(split_text("", "marker:=="), ElementsAre());
}

TEST_F(TextReaderTest, unknown_split_is_refused) {
  TextOptions options;
  for (const std::string_view spelling :
       {"sentence", "marker:", "marker:a\nb", ""}) {
    EXPECT_THAT(
        error_of([&] { set_split(options, spelling); }, ExitCode::kUsage),
        HasSubstr("use file, lines, blank-lines or marker:STRING"));
  }
}

TEST_F(TextReaderTest, json_lines) {
  const fs::path path =
      write("d.jsonl",
            "{\"text\": \"one \\u00fc\\n\", \"n\": 1}\n\n  \r\n"
            "{\"text\": \"\"}\r\n{\"text\": \"last \xF0\x9F\x99\x82\"}");
  EXPECT_THAT(texts_of(path),
              ElementsAre("one \xC3\xBC\n", "", "last \xF0\x9F\x99\x82"));
  TextOptions options;
  options.field = "body";
  EXPECT_THAT(texts_of(write("b.jsonl", "{\"body\":\"x\"}"), options),
              ElementsAre("x"));
}

TEST_F(TextReaderTest, byte_order_mark_is_passed_over) {
  EXPECT_THAT(texts_of(write("d.jsonl", "\xEF\xBB\xBF{\"text\": \"a\"}")),
              ElementsAre("a"));
  EXPECT_THAT(split_text("\xEF\xBB\xBF"
                         "a",
                         "file"),
              ElementsAre("a"));
}

TEST_F(TextReaderTest, json_faults_name_file_line_and_offset) {
  const auto fault = [&](const std::string& second_line) {
    const fs::path path =
        write("d.jsonl", "{\"text\": \"a\"}\n" + second_line + "\n");
    return error_of([&] { texts_of(path); });
  };
  const auto where = HasSubstr("d.jsonl: line 2, offset 14");
  EXPECT_THAT(fault("{\"text\": 3}"),
              AllOf(where, HasSubstr("\"text\" is a number")));
  EXPECT_THAT(
      fault("{\"txt\": \"a\", \"id\": 1}"),
      AllOf(where, HasSubstr("no key \"text\""), HasSubstr("\"id\", \"txt\"")));
  EXPECT_THAT(fault("[1]"), AllOf(where, HasSubstr("got array")));
  EXPECT_THAT(
      fault("{\"text\": \"a"),
      AllOf(HasSubstr("d.jsonl: line 2, offset 2"), HasSubstr("is not JSON")));
  EXPECT_THAT(fault("{\"text\": \"\\ud800\"}"), HasSubstr("is not JSON"));
  EXPECT_THAT(fault("{\"text\": \"a\", \"x\": 1e999}"),
              AllOf(where, HasSubstr("1e999")));
}

TEST_F(TextReaderTest, a_text_that_is_there_twice_is_refused) {
  const auto fault = [&](const std::string& line) {
    return error_of(
        [&] { texts_of(write("d.jsonl", "{\"text\": \"good\"}\n" + line)); });
  };
  for (const char* line :
       {R"({"text": "a", "text": "b"})", R"({"text": "a", "text": "a"})",
        R"({"text": 1, "id": 2, "text": "b"})",
        R"({"text": "a", "t\u0065xt": "b"})",
        R"({"text": "a", "text": "b", "text": "c"})"}) {
    EXPECT_THAT(fault(line),
                AllOf(HasSubstr("d.jsonl: line 2, offset 17"),
                      HasSubstr("the key \"text\" is there more than once")))
        << line;
  }
  // Other keys, and keys further in, are none of our business.
  EXPECT_THAT(texts_of(write("e.jsonl", R"({"x": {"text": 1, "text": 2}, )"
                                        R"("id": 1, "text": "a", "id": 2})")),
              ElementsAre("a"));
}

TEST_F(TextReaderTest, a_link_that_goes_round_in_circles_is_an_input_error) {
  fs::create_symlink(dir_ / "loop.txt", dir_ / "loop.txt");
  for (const fs::path& input : {dir_ / "loop.txt", dir_.path()}) {
    EXPECT_THAT(error_of([&] { TextReader reader(text_files({input}), {}); }),
                AllOf(HasSubstr("loop.txt"), HasSubstr("symbolic links")));
  }
}

TEST_F(TextReaderTest, invalid_utf8_names_file_line_and_offset) {
  EXPECT_THAT(error_of([&] { split_text("ab\ncd\xFFz\n", "file"); }),
              HasSubstr("t.txt: line 2, offset 5: invalid UTF-8 (byte 0xff)"));
  EXPECT_THAT(error_of([&] { split_text("ab\n\ncd\xC3", "blank-lines"); }),
              HasSubstr("t.txt: line 3, offset 6: invalid UTF-8 (byte 0xc3)"));
  EXPECT_THAT(error_of([&] { split_text("a|b\nc\xED\xA0\x80", "marker:|"); }),
              HasSubstr("t.txt: line 2, offset 5: invalid UTF-8 (byte 0xed)"));
  EXPECT_THAT(error_of([&] {
                texts_of(write("d.jsonl",
                               "{\"text\": \"a\"}\n{\"text\": "
                               "\"\x80\"}"));
              }),
              HasSubstr("d.jsonl: line 2, offset 24: invalid UTF-8"));
  EXPECT_THAT(error_of([&] { texts_of(write("d.txt.zst", zstd("ab\n\xFE"))); }),
              HasSubstr("d.txt.zst: line 2, offset 3 of the unpacked text"));
}

TEST_F(TextReaderTest, zst_of_several_frames_gives_the_same_as_plain) {
  std::string text;
  std::string packed;
  Xoshiro256 random(2);
  for (int frame = 0; frame < 5; ++frame) {
    std::string part;
    for (int line = 0; line < 4000; ++line) {
      part +=
          concat("{\"text\": \"", random.next(), " ", random.next(), "\"}\n");
    }
    text += part;
    packed += zstd(part);
  }
  packed += zstd("");
  const auto plain = texts_of(write("d.jsonl", text));
  EXPECT_EQ(plain.size(), 20000U);
  EXPECT_EQ(texts_of(write("d.jsonl.zst", packed)), plain);
}

TEST_F(TextReaderTest, zst_cut_short_anywhere_is_an_error_with_its_offset) {
  std::string text;
  Xoshiro256 random(3);
  while (text.size() < 3000) {
    text += concat(random.next(), "\n");
  }
  const std::string packed = zstd(text) + zstd("second frame\n");
  const std::size_t first_frame = zstd(text).size();
  for (std::size_t size = 0; size < packed.size(); ++size) {
    const fs::path path = write("d.txt.zst", packed.substr(0, size));
    if (size == first_frame) {
      EXPECT_THAT(texts_of(path), ElementsAre(text));
      continue;
    }
    EXPECT_THAT(
        error_of([&] { texts_of(path); }),
        AllOf(HasSubstr("d.txt.zst"), HasSubstr(concat("end at offset ", size)),
              HasSubstr("cut short")));
  }
}

TEST_F(TextReaderTest, damaged_zst_is_an_error) {
  EXPECT_THAT(error_of([&] { texts_of(write("d.txt.zst", "plain text")); }),
              AllOf(HasSubstr("d.txt.zst"), HasSubstr("damaged")));
}

TEST_F(TextReaderTest, documents_over_the_limit_are_errors) {
  TextOptions options;
  options.max_document_bytes = 1000;
  const std::string line(1000, 'x');
  EXPECT_THAT(texts_of(write("a.txt", line), options), ElementsAre(line));
  EXPECT_THAT(
      error_of([&] { texts_of(write("a.txt", "short\n" + line), options); }),
      AllOf(HasSubstr("a.txt: line 1, offset 0"), HasSubstr("1000")));
  const std::string json = "{\"text\": \"a\"}\n";
  EXPECT_THAT(
      error_of([&] {
        texts_of(write("a.jsonl", json + std::string(5'000'000, ' ')), options);
      }),
      AllOf(HasSubstr("a.jsonl: line 2, offset 14"), HasSubstr("1000 bytes")));
  set_split(options, "blank-lines");
  EXPECT_THAT(error_of([&] {
                texts_of(write("a.txt", "ok\n\n" + line + "\n" + line),
                         options);
              }),
              HasSubstr("a.txt: line 3, offset 4"));
}

TEST_F(TextReaderTest, lines_longer_than_the_read_buffer) {
  const std::string line(3'000'000, 'y');
  EXPECT_THAT(split_text(line + "\n" + line, "lines"), ElementsAre(line, line));
}

TEST_F(TextReaderTest, files_of_a_folder_by_name) {
  write("b.txt", "b");
  write("a.jsonl", "{}");
  write("c.txt.zst", "");
  write("notes.md", "");
  fs::create_directory(dir_ / "d.txt");
  EXPECT_THAT(
      text_files({dir_.path()}),
      ElementsAre(dir_ / "a.jsonl", dir_ / "b.txt", dir_ / "c.txt.zst"));
  EXPECT_THAT(
      error_of([&] { text_files({dir_ / "notes.md"}); }, ExitCode::kUsage),
      HasSubstr("notes.md: unknown ending"));
  EXPECT_THAT(error_of([&] { text_files({dir_ / "nowhere"}); }),
              HasSubstr("nowhere: does not exist"));
  EXPECT_THAT(error_of([&] { text_files({dir_ / "d.txt"}); }),
              HasSubstr("no .txt"));
  EXPECT_THAT(error_of([&] { TextReader reader({dir_ / "gone.txt"}, {}); }),
              HasSubstr("gone.txt"));
}

}  // namespace
}  // namespace osdn::data
