#include "record_layout.h"

#include <algorithm>
#include <cmath>

#include "osdn/synth/draw.h"

namespace osdn::synth {
namespace {

void append(Page& page, std::int64_t begin, std::int64_t end) {
  for (std::int64_t record = begin; record < end; ++record) {
    page.push_back(record);
  }
}

/// Of the pages behind the first `before` ones, those that get a copy: empty
/// ones, then any.
std::vector<std::size_t> pages_of_copies(const std::vector<Page>& pages,
                                         std::size_t before,
                                         std::int64_t copies,
                                         Xoshiro256& random) {
  std::vector<std::size_t> empty;
  std::vector<std::size_t> filled;
  for (std::size_t p = before; p < pages.size(); ++p) {
    (pages[p].empty() ? empty : filled).push_back(p);
  }
  shuffle(random, filled);
  empty.insert(empty.end(), filled.begin(), filled.end());
  empty.resize(static_cast<std::size_t>(copies));
  return empty;
}

}  // namespace

std::vector<Page> even_pages(std::int64_t records, std::int64_t pages) {
  std::vector<Page> out(static_cast<std::size_t>(pages));
  for (std::int64_t p = 0; p < pages; ++p) {
    append(out[static_cast<std::size_t>(p)], records * p / pages,
           records * (p + 1) / pages);
  }
  return out;
}

std::vector<Page> pages_with_copies(std::int64_t records, std::int64_t pages,
                                    std::int64_t queried, std::int64_t copies,
                                    double depth, Xoshiro256& random) {
  const std::int64_t rest = records - 1 - queried;
  const std::int64_t wanted = static_cast<std::int64_t>(
      std::floor((1 - depth) * static_cast<double>(pages)));
  const std::int64_t least = std::max(copies, pages - 1 - queried);
  const std::int64_t most = std::min(pages - 1, rest + copies);
  const std::int64_t behind = std::clamp(wanted, least, most);
  const std::int64_t before = pages - 1 - behind;

  std::vector<Page> out(static_cast<std::size_t>(pages));
  // Records before the queried one, over the pages before and its own; what
  // is left over goes to the first ones, so that none is empty.
  const auto share = [&](std::int64_t p) {
    return (queried * p + before) / (before + 1);
  };
  for (std::int64_t p = 0; p <= before; ++p) {
    append(out[static_cast<std::size_t>(p)], share(p), share(p + 1));
  }
  out[static_cast<std::size_t>(before)].push_back(queried);
  for (std::int64_t p = 0; p <= behind; ++p) {
    append(out[static_cast<std::size_t>(before + p)],
           queried + 1 + rest * p / (behind + 1),
           queried + 1 + rest * (p + 1) / (behind + 1));
  }
  for (const std::size_t p : pages_of_copies(
           out, static_cast<std::size_t>(before) + 1, copies, random)) {
    const auto at =
        static_cast<std::ptrdiff_t>(random.below(out[p].size() + 1));
    out[p].insert(out[p].begin() + at, kOtherCopy);
  }
  return out;
}

std::vector<Page> reversed(std::vector<Page> pages, std::int64_t records) {
  std::reverse(pages.begin(), pages.end());
  for (Page& page : pages) {
    std::reverse(page.begin(), page.end());
    for (std::int64_t& record : page) {
      if (record != kOtherCopy) record = records - 1 - record;
    }
  }
  return pages;
}

}  // namespace osdn::synth
