#pragma once
// Which record stands on which page.

#include <cstdint>
#include <vector>

#include "osdn/core/random.h"

namespace osdn::synth {

/// A record of the document, or one of the queried record's other copies.
constexpr std::int64_t kOtherCopy = -1;

using Page = std::vector<std::int64_t>;

/// `records` in order on `pages` pages of like length, none empty.
std::vector<Page> even_pages(std::int64_t records, std::int64_t pages);

/// The same with `copies` more of record `queried`, each on a page of its own
/// behind the record's. `depth` (0 to 1) says how far down the record is, and
/// so how many of the pages lie behind it, as far as there are records to put
/// on them. pages <= records, copies < pages.
std::vector<Page> pages_with_copies(std::int64_t records, std::int64_t pages,
                                    std::int64_t queried, std::int64_t copies,
                                    double depth, Xoshiro256& random);

/// Last record first: copies come before the record instead of behind it.
std::vector<Page> reversed(std::vector<Page> pages, std::int64_t records);

}  // namespace osdn::synth
