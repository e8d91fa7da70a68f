#include "osdn/data/validation_set.h"

#include <algorithm>
#include <utility>

#include "deal.h"
#include "osdn/core/concat.h"
#include "osdn/core/error.h"

namespace osdn::data {

ValidationSet::ValidationSet(std::shared_ptr<const TokenDataset> dataset,
                             const ValidationOptions& options)
    : dataset_(std::move(dataset)),
      options_(options),
      rows_(*dataset_, options.packing,
            DocumentOrder(dataset_->document_count(), false, 0, 0)) {
  if (options.micro_batch < 1 || options.world_size < 1 || options.rank < 0 ||
      options.rank >= options.world_size || options.max_tokens < 0) {
    throw Error(concat("validation with micro_batch ", options.micro_batch,
                       ", rank ", options.rank, " of ", options.world_size,
                       ", at most ", options.max_tokens,
                       " tokens; expected at least one row, rank 0 to world "
                       "size - 1, and 0 (all) or more tokens"),
                ExitCode::kUsage);
  }
  const auto all = static_cast<std::int64_t>(dataset_->token_count());
  const std::int64_t limit =
      options.max_tokens == 0 ? all : std::min(options.max_tokens, all);
  while (token_count_ < limit) {
    const std::int64_t tokens =
        count_tokens(rows_.segments(static_cast<std::uint64_t>(row_count_)));
    last_row_tokens_ = std::min(tokens, limit - token_count_);
    token_count_ += last_row_tokens_;
    ++row_count_;
  }
}

std::int64_t ValidationSet::size() const {
  return Deal{row_count_, options_.micro_batch, options_.world_size}.groups();
}

MicroBatch ValidationSet::micro_batch(std::int64_t index) const {
  if (index < 0 || index >= size()) {
    throw Error(concat("validation micro-batch ", index, " of ", size(),
                       " was asked for"));
  }
  MicroBatch batch;
  const Deal deal = {row_count_, options_.micro_batch, options_.world_size};
  const RowRange share = deal.share(index, options_.rank);
  for (std::int64_t row = share.begin; row < share.end; ++row) {
    append_row(*dataset_, segments(row), options_.packing.mask_document_end,
               batch);
  }
  return batch;
}

std::vector<Segment> ValidationSet::segments(std::int64_t row) const {
  std::vector<Segment> segments =
      rows_.segments(static_cast<std::uint64_t>(row));
  if (row + 1 < row_count_) {
    return segments;
  }
  auto left = static_cast<std::uint64_t>(last_row_tokens_);
  std::size_t kept = 0;
  while (left > 0) {
    Segment& segment = segments[kept++];
    if (left < segment.length) {
      segment.length = left;
      segment.ends_document = false;
    }
    left -= segment.length;
  }
  segments.resize(kept);
  return segments;
}

}  // namespace osdn::data
