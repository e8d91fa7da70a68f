#include "osdn/data/packing.h"

#include <algorithm>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/narrow.h"

namespace osdn::data {

namespace {

// Calls row_starts(place, offset) at the start of each row.
template <typename RowStarts>
void pack_documents(const TokenDataset& dataset, const PackingOptions& options,
                    const DocumentOrder& order, RowStarts row_starts) {
  const auto context = static_cast<std::uint64_t>(options.context_length);
  const auto room = static_cast<std::uint64_t>(options.sequence_length);
  std::uint64_t filled = room;  // so that the first piece starts a row
  for (std::uint64_t place = 0; place < order.count(); ++place) {
    const std::uint64_t length = dataset.document_length(order(place));
    for (std::uint64_t offset = 0; offset < length; offset += context) {
      const std::uint64_t piece = std::min(context, length - offset);
      if (filled + piece > room) {
        row_starts(place, offset);
        filled = 0;
      }
      filled += piece;
    }
  }
}

template <typename RowStarts>
void pack_stream(const TokenDataset& dataset, const PackingOptions& options,
                 const DocumentOrder& order, RowStarts row_starts) {
  const auto room = static_cast<std::uint64_t>(options.sequence_length);
  std::uint64_t next_start = 0;  // in tokens from the document's first one
  for (std::uint64_t place = 0; place < order.count(); ++place) {
    const std::uint64_t length = dataset.document_length(order(place));
    for (; next_start < length; next_start += room) {
      row_starts(place, next_start);
    }
    next_start -= length;
  }
}

}  // namespace

Packing packing_from_name(std::string_view name) {
  if (name == "documents") {
    return Packing::kDocuments;
  }
  if (name == "stream") {
    return Packing::kStream;
  }
  throw Error(
      concat("packing \"", name, "\" is not known; use documents or stream"),
      ExitCode::kUsage);
}

void check(const PackingOptions& options) {
  if (options.context_length < 1 ||
      options.context_length > options.sequence_length) {
    throw Error(concat("context_length ", options.context_length,
                       " with sequence_length ", options.sequence_length,
                       "; expected 1 <= context_length <= sequence_length, as "
                       "a piece must fit a row"),
                ExitCode::kUsage);
  }
}

EpochRows::EpochRows(const TokenDataset& dataset, const PackingOptions& options,
                     const DocumentOrder& order)
    : dataset_(dataset),
      context_length_(static_cast<std::uint64_t>(options.context_length)),
      order_(order) {
  check(options);
  const auto add = [this](std::uint64_t place, std::uint64_t offset) {
    starts_.push_back({place, offset});
  };
  if (options.packing == Packing::kDocuments) {
    pack_documents(dataset, options, order, add);
  } else {
    pack_stream(dataset, options, order, add);
  }
  starts_.push_back({order.count(), 0});
}

std::vector<Segment> EpochRows::segments(std::uint64_t row) const {
  std::vector<Segment> segments;
  const Start end = starts_[row + 1];
  Start at = starts_[row];
  while (at.place < end.place || at.offset < end.offset) {
    const std::uint64_t document = order_(at.place);
    const std::uint64_t length = dataset_.document_length(document);
    // Pieces are cut at multiples of context_length from the document's start,
    // wherever the row began.
    std::uint64_t stop =
        std::min(length, (at.offset / context_length_ + 1) * context_length_);
    if (at.place == end.place) {
      stop = std::min(stop, end.offset);
    }
    segments.push_back({document, at.offset, stop - at.offset, stop == length});
    at = stop == length ? Start{at.place + 1, 0} : Start{at.place, stop};
  }
  return segments;
}

std::uint64_t count_rows(const TokenDataset& dataset,
                         const PackingOptions& options,
                         const DocumentOrder& order) {
  check(options);
  if (options.packing == Packing::kStream) {
    return div_up(dataset.token_count(),
                  static_cast<std::uint64_t>(options.sequence_length));
  }
  std::uint64_t rows = 0;
  pack_documents(dataset, options, order,
                 [&rows](std::uint64_t, std::uint64_t) { ++rows; });
  return rows;
}

}  // namespace osdn::data
