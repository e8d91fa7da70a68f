// Keeps the table of docs/design.md true: which area may include which, and
// who may see the headers of the libraries that we stand on.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

struct Area {
  std::set<std::string> may_include;
  bool all = false;
  bool libtorch = false;
};
using Table = std::map<std::string, Area>;

struct Include {
  int line = 0;
  std::string path;
  bool quoted = false;
};

std::string read(const fs::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// | area | what | may include | LibTorch |
Table parse_table(const std::string& markdown) {
  Table table;
  std::istringstream lines(markdown);
  std::string line;
  const std::regex row(
      R"(^\| *(\w+) *\|[^|]*\| *([^|]*?) *\| *(yes|no|-) *\|\s*$)");
  while (std::getline(lines, line)) {
    std::smatch match;
    if (!std::regex_match(line, match, row)) {
      continue;
    }
    Area area;
    area.libtorch = match[3] == "yes";
    area.all = match[2] == "all";
    const std::string allowed = match[2];
    const std::regex word(R"([a-z][a-z_/]*)");
    for (std::sregex_iterator it(allowed.begin(), allowed.end(), word), end;
         it != end; ++it) {
      area.may_include.insert(it->str());
    }
    // Open to all, but for the two that stand below them.
    if (match[1] != "core" && match[1] != "kernels") {
      area.may_include.insert("core");
      if (match[1] != "config") {
        area.may_include.insert("config");
      }
    }
    table[match[1]] = area;
  }
  return table;
}

std::vector<Include> includes_of(const std::string& text) {
  std::vector<Include> includes;
  std::istringstream lines(text);
  std::string line;
  const std::regex pattern(R"re(^\s*#\s*include\s*([<"])([^>"]+)[>"].*)re");
  for (int number = 1; std::getline(lines, line); ++number) {
    std::smatch match;
    if (std::regex_match(line, match, pattern)) {
      includes.push_back({number, match[2], match[1] == "\""});
    }
  }
  return includes;
}

// The area of a file, from its path below the source root; "" for none.
std::string area_of(const fs::path& file) {
  const std::vector<std::string> parts(file.begin(), file.end());
  if (parts.size() >= 2 && parts[0] == "kernels") {
    return "kernels";
  }
  if (parts.size() >= 3 && parts[0] == "src") {
    return parts[1];
  }
  if (parts.size() >= 4 && parts[0] == "include" && parts[1] == "osdn") {
    return parts[2];
  }
  return "";
}

bool starts_with_any(const std::string& text,
                     const std::vector<std::string>& prefixes) {
  return std::any_of(
      prefixes.begin(), prefixes.end(),
      [&](const std::string& prefix) { return text.starts_with(prefix); });
}

// What is wrong with one include, or "".
std::string fault(const Table& table, const fs::path& file,
                  const Include& include) {
  const std::string name = area_of(file);
  const auto found = table.find(name);
  if (found == table.end()) {
    return "its area \"" + name + "\" is not in the table of docs/design.md";
  }
  const Area& area = found->second;
  const std::string& path = include.path;
  const bool header = file.extension() == ".h" || file.extension() == ".cuh";

  if (path.find("..") != std::string::npos) {
    return "relative paths must not leave the folder";
  }
  if (path.starts_with("osdn/")) {
    const std::string other = path.substr(5, path.find('/', 5) - 5);
    if (name == "kernels") {
      return "kernels stand on raw pointers and include no area";
    }
    if (other != name && !area.all && !area.may_include.contains(other)) {
      return name + " may not include " + other;
    }
  }
  if (path.starts_with("kernels/") || path.starts_with("osdn/kernels/")) {
    const bool common = path.find("kernels/common/") != std::string::npos;
    const auto folder = file.parent_path().filename();
    // decode is the other operators in one launch and uses their formulas.
    const bool own =
        fs::path(path).parent_path().filename() == folder || folder == "decode";
    if (name == "kernels" ? !common && !own
                          : !area.may_include.contains("kernels")) {
      return name + " may not include this kernel header";
    }
  }
  if (!area.libtorch && !area.all &&
      starts_with_any(path, {"torch/", "ATen/", "c10/", "caffe2/"})) {
    return name + " may not include LibTorch";
  }
  if (path.starts_with("CLI/") && name != "apps") {
    return "CLI11 belongs in src/apps only";
  }
  if (starts_with_any(path, {"spdlog/", "fmt/"}) &&
      file != fs::path("src/core/log.cpp")) {
    return "spdlog and fmt stay behind osdn/core/log.h";
  }
  if (path == "ATen/Parallel.h" && file != fs::path("src/ops/threads.cpp")) {
    return "at::parallel_for stays behind osdn/ops/threads.h, whose source is "
           "compiled with OpenMP";
  }
  if (path.starts_with("sentencepiece") && (name != "tokenizer" || header)) {
    return "SentencePiece stays in the sources of src/tokenizer";
  }
  if (path == "nlohmann/json.hpp" && header) {
    return "headers take nlohmann/json_fwd.hpp only";
  }
  return "";
}

std::vector<std::string> faults(const Table& table, const fs::path& file,
                                const std::string& text) {
  std::vector<std::string> out;
  for (const Include& include : includes_of(text)) {
    const std::string what = fault(table, file, include);
    if (!what.empty()) {
      out.push_back(file.string() + ":" + std::to_string(include.line) + ": " +
                    include.path + ": " + what);
    }
  }
  return out;
}

std::vector<fs::path> files_below(const std::string& folder) {
  std::vector<fs::path> files;
  const fs::path root = OSDN_SOURCE_DIR;
  if (!fs::exists(root / folder)) {
    return files;
  }
  for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
    const std::set<std::string> kinds = {".h", ".cpp", ".cu", ".cuh"};
    if (entry.is_regular_file() &&
        kinds.contains(entry.path().extension().string())) {
      files.push_back(fs::relative(entry.path(), root));
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

Table design_table() {
  return parse_table(read(fs::path(OSDN_SOURCE_DIR) / "docs" / "design.md"));
}

TEST(IncludeRules, the_table_is_read) {
  const Table table = design_table();
  ASSERT_TRUE(table.contains("core"));
  ASSERT_TRUE(table.contains("train"));
  ASSERT_TRUE(table.contains("apps"));
  EXPECT_TRUE(table.at("core").may_include.empty());
  EXPECT_EQ(table.at("config").may_include, (std::set<std::string>{"core"}));
  EXPECT_TRUE(table.at("data").may_include.contains("tokenizer"));
  EXPECT_FALSE(table.at("data").may_include.contains("ops"));
  EXPECT_TRUE(table.at("train").libtorch);
  EXPECT_FALSE(table.at("data").libtorch);
  EXPECT_TRUE(table.at("apps").all);
}

TEST(IncludeRules, the_tree_keeps_the_table) {
  const Table table = design_table();
  std::size_t files = 0;
  for (const std::string folder : {"include", "src", "kernels"}) {
    for (const fs::path& file : files_below(folder)) {
      ++files;
      for (const std::string& fault :
           faults(table, file, read(fs::path(OSDN_SOURCE_DIR) / file))) {
        ADD_FAILURE() << fault;
      }
    }
  }
  EXPECT_GT(files, 20U);
}

// True when the compiler takes the header with nothing before it.
bool compiles_alone(const fs::path& header) {
  const std::string root = OSDN_SOURCE_DIR;
  const std::string command = "c++ -std=c++20 -fsyntax-only -x c++ '-I" + root +
                              "/include' '" +
                              (fs::path(root) / header).string() + "' 2>&1";
  return std::system(command.c_str()) == 0;
}

// A header that some source includes before anything else compiles by itself;
// the others are compiled here.
TEST(IncludeRules, every_public_header_compiles_by_itself) {
  std::set<std::string> first;
  for (const std::string folder : {"src", "tests"}) {
    for (const fs::path& file : files_below(folder)) {
      const auto includes = includes_of(read(fs::path(OSDN_SOURCE_DIR) / file));
      if (file.extension() == ".cpp" && !includes.empty()) {
        first.insert(includes.front().path);
      }
    }
  }
  for (const fs::path& header : files_below("include")) {
    const std::string path = fs::relative(header, "include").string();
    EXPECT_TRUE(first.contains(path) || compiles_alone(header)) << path;
  }
}

TEST(IncludeRules, a_header_that_needs_another_one_does_not_pass) {
  const fs::path header = fs::path(::testing::TempDir()) / "needs_string.h";
  std::ofstream(header) << "#pragma once\ninline std::string text;\n";
  EXPECT_FALSE(compiles_alone(header));
  std::ofstream(header) << "#pragma once\n#include <string>\n"
                           "inline std::string text;\n";
  EXPECT_TRUE(compiles_alone(header));
  fs::remove(header);
}

// Faults that must be seen, planted one by one.
struct Planted {
  std::string file;
  std::string line;
};

class PlantedFault : public ::testing::TestWithParam<Planted> {};

TEST_P(PlantedFault, is_found) {
  const Planted& planted = GetParam();
  EXPECT_EQ(faults(design_table(), planted.file,
                   "// text\n" + planted.line + "\nint x;\n")
                .size(),
            1U)
      << planted.file << " with " << planted.line;
}

INSTANTIATE_TEST_SUITE_P(
    IncludeRules, PlantedFault,
    ::testing::Values(
        Planted{"src/data/loader.cpp", "#include \"osdn/ops/delta_rule.h\""},
        Planted{"src/data/loader.cpp", "#include <ATen/ATen.h>"},
        Planted{"include/osdn/checkpoint/x.h", "  #  include <torch/torch.h>"},
        Planted{"src/core/file.cpp", "#include \"osdn/config/config.h\""},
        Planted{"src/config/reader.cpp", "#include \"osdn/arch/dry_run.h\""},
        Planted{"src/ops/delta_rule.cpp",
                "#include \"osdn/layers/attention.h\""},
        Planted{"src/dist/watch.cpp", "#include <ATen/ATen.h>"},
        Planted{"src/dist/watch.cpp", "#include \"osdn/train/trainer.h\""},
        Planted{"src/train/trainer.cpp", "#include <CLI/CLI.hpp>"},
        Planted{"include/osdn/core/log.h", "#include <spdlog/spdlog.h>"},
        Planted{"include/osdn/core/log.h", "#include <fmt/format.h>"},
        Planted{"include/osdn/report/x.h", "#include <nlohmann/json.hpp>"},
        Planted{"src/data/x.cpp", "#include <sentencepiece_processor.h>"},
        Planted{"include/osdn/tokenizer/tokenizer.h",
                "#include <sentencepiece_processor.h>"},
        Planted{"kernels/norm/norm.cu", "#include \"osdn/core/error.h\""},
        Planted{"kernels/norm/norm.cu", "#include <ATen/ATen.h>"},
        Planted{"kernels/norm/norm.cu",
                "#include \"kernels/delta_rule/delta_rule.cuh\""},
        Planted{"src/layers/x.cpp", "#include \"kernels/norm/norm.cuh\""},
        Planted{"src/data/x.cpp", "#include \"../ops/x.h\""},
        Planted{"src/unknown/x.cpp", "#include <vector>"}));

TEST(IncludeRules, what_is_allowed_passes) {
  const Table table = design_table();
  for (const auto& [file, line] : std::vector<Planted>{
           {"src/data/loader.cpp", "#include \"osdn/tokenizer/tokenizer.h\""},
           {"src/data/loader.cpp", "#include \"osdn/config/config.h\""},
           {"src/data/loader.cpp", "#include \"line_source.h\""},
           {"src/ops/delta_rule.cpp", "#include <ATen/ATen.h>"},
           {"src/ops/norm.cpp", "#include \"kernels/norm/norm.cuh\""},
           {"kernels/norm/norm.cu", "#include \"kernels/norm/norm.cuh\""},
           {"kernels/norm/norm.cu", "#include \"kernels/common/warp.cuh\""},
           {"src/core/log.cpp", "#include <spdlog/logger.h>"},
           {"src/report/step_log.cpp", "#include <nlohmann/json.hpp>"},
           {"src/apps/osdn_train.cpp", "#include <CLI/CLI.hpp>"},
           {"src/apps/osdn_train.cpp", "#include \"osdn/train/trainer.h\""}}) {
    EXPECT_TRUE(faults(table, file, line + "\n").empty()) << file << line;
  }
}

}  // namespace
