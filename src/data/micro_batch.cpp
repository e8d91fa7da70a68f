#include "osdn/data/micro_batch.h"

namespace osdn::data {

void append_row(const TokenDataset& dataset, std::span<const Segment> row,
                bool mask_document_end, MicroBatch& batch) {
  std::vector<std::int32_t>& tokens = batch.tokens;
  for (std::size_t s = 0; s < row.size(); ++s) {
    const Segment& segment = row[s];
    const auto length = static_cast<std::size_t>(segment.length);
    const std::size_t first = tokens.size();
    // One more where the document goes on: the label of the last token.
    const std::size_t more = segment.ends_document ? 0 : 1;
    tokens.resize(first + length + more);
    dataset.read(segment.document, segment.begin,
                 std::span(tokens).subspan(first));
    batch.labels.insert(batch.labels.end(),
                        tokens.begin() + static_cast<std::ptrdiff_t>(first) + 1,
                        tokens.end());
    tokens.resize(first + length);
    if (segment.ends_document) {
      std::int64_t label = kNoLabel;
      if (!mask_document_end && s + 1 < row.size()) {
        std::int32_t next = 0;
        dataset.read(row[s + 1].document, row[s + 1].begin, {&next, 1});
        label = next;
      }
      batch.labels.push_back(label);
    }
    batch.cu_seqlens.push_back(static_cast<std::int64_t>(tokens.size()));
  }
  ++batch.rows;
  batch.valid_labels += count_valid_labels(row, mask_document_end);
}

std::int64_t count_valid_labels(std::span<const Segment> row,
                                bool mask_document_end) {
  std::int64_t valid = count_tokens(row);
  for (std::size_t s = 0; s < row.size(); ++s) {
    if (row[s].ends_document && (mask_document_end || s + 1 == row.size())) {
      --valid;
    }
  }
  return valid;
}

std::int64_t count_tokens(std::span<const Segment> row) {
  std::int64_t tokens = 0;
  for (const Segment& segment : row) {
    tokens += static_cast<std::int64_t>(segment.length);
  }
  return tokens;
}

}  // namespace osdn::data
