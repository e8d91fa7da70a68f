#include "osdn/core/nearest.h"

#include <algorithm>
#include <cctype>
#include <vector>

namespace osdn {

namespace {

int lower(char c) {
  return std::tolower(static_cast<unsigned char>(c));
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Three rows are enough: a swap looks back two.
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) {
    last[j] = j;
  }
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = lower(a[i - 1]) == lower(b[j - 1]) ? 0 : 1;
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + change});
      if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
          lower(a[i - 2]) == lower(b[j - 1])) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

std::optional<std::string> nearest(std::string_view word,
                                   std::span<const std::string> known) {
  std::optional<std::string> best;
  std::size_t best_distance = 0;
  for (const std::string& candidate : known) {
    const std::size_t distance = edit_distance(word, candidate);
    if (!best || distance < best_distance ||
        (distance == best_distance && candidate.starts_with(word) &&
         !best->starts_with(word))) {
      best = candidate;
      best_distance = distance;
    }
  }
  if (best && 2 * best_distance > std::max(word.size(), best->size())) {
    return std::nullopt;
  }
  return best;
}

}  // namespace osdn
