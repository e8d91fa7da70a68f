#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "osdn/eval/longbench_metrics.h"
#include "osdn/eval/python_text.h"

namespace osdn::eval {
namespace {

struct Range {
  std::size_t begin;
  std::size_t end;
};

struct Block {
  std::size_t a = 0;
  std::size_t b = 0;
  std::size_t size = 0;
};

/// The matching blocks of two texts as Python's difflib finds them.
class Matcher {
 public:
  Matcher(const std::u32string& a, const std::u32string& b) : a_(a), b_(b) {
    for (std::size_t j = 0; j < b.size(); ++j) places_[b[j]].push_back(j);
    if (b.size() >= 200) {
      // Frequent characters do not begin a match, though they prolong one.
      const std::size_t most = b.size() / 100 + 1;
      std::erase_if(places_, [most](const auto& entry) {
        return entry.second.size() > most;
      });
    }
  }

  /// Total length of all blocks.
  std::size_t matched() const {
    std::size_t sum = 0;
    std::vector<std::pair<Range, Range>> open{{{0, a_.size()}, {0, b_.size()}}};
    while (!open.empty()) {
      const auto [in_a, in_b] = open.back();
      open.pop_back();
      const Block block = longest(in_a, in_b);
      if (block.size == 0) continue;
      sum += block.size;
      open.push_back({{in_a.begin, block.a}, {in_b.begin, block.b}});
      open.push_back(
          {{block.a + block.size, in_a.end}, {block.b + block.size, in_b.end}});
    }
    return sum;
  }

 private:
  /// The longest block in these ranges; of equal ones the earliest in a, then
  /// in b.
  Block longest(Range in_a, Range in_b) const {
    Block best{in_a.begin, in_b.begin, 0};
    // ending[j]: length of the match that ends at a's last character and b[j].
    std::map<std::size_t, std::size_t> ending;
    for (std::size_t i = in_a.begin; i < in_a.end; ++i) {
      std::map<std::size_t, std::size_t> next;
      const auto places = places_.find(a_[i]);
      if (places != places_.end()) {
        for (const std::size_t j : places->second) {
          if (j < in_b.begin || j >= in_b.end) continue;
          const auto before = j > 0 ? ending.find(j - 1) : ending.end();
          const std::size_t size =
              (before == ending.end() ? 0 : before->second) + 1;
          next[j] = size;
          if (size > best.size) best = {i + 1 - size, j + 1 - size, size};
        }
      }
      ending = std::move(next);
    }
    return prolonged(best, in_a, in_b);
  }

  Block prolonged(Block block, Range in_a, Range in_b) const {
    while (block.a > in_a.begin && block.b > in_b.begin &&
           a_[block.a - 1] == b_[block.b - 1]) {
      --block.a;
      --block.b;
      ++block.size;
    }
    while (block.a + block.size < in_a.end && block.b + block.size < in_b.end &&
           a_[block.a + block.size] == b_[block.b + block.size]) {
      ++block.size;
    }
    return block;
  }

  const std::u32string& a_;
  const std::u32string& b_;
  std::map<char32_t, std::vector<std::size_t>> places_;  // in b
};

/// The first line without a comment or a code fence.
std::string_view first_line_of_code(std::string_view output) {
  const std::size_t begin = output.find_first_not_of('\n');
  if (begin == std::string_view::npos) return {};
  for (const std::string_view line : split_at(output.substr(begin), "\n")) {
    if (line.find_first_of("`#") == std::string_view::npos &&
        line.find("//") == std::string_view::npos) {
      return line;
    }
  }
  return {};
}

}  // namespace

double code_similarity(std::string_view output, std::string_view answer) {
  const std::u32string a = code_points(first_line_of_code(output));
  const std::u32string b = code_points(answer);
  if (a.empty() || b.empty()) return 0;
  const double ratio = 2.0 * static_cast<double>(Matcher(a, b).matched()) /
                       static_cast<double>(a.size() + b.size());
  // Halves go to the even number, as Python rounds.
  return std::nearbyint(100 * ratio) / 100;
}

}  // namespace osdn::eval
