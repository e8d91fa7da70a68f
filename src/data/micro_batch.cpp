#include "osdn/data/micro_batch.h"

#include <algorithm>

namespace osdn::data {

namespace {

void append_labelled_row(const TokenDataset& dataset,
                         std::span<const Segment> row, MicroBatch& batch) {
  for (const Segment& segment : row) {
    const std::size_t first = batch.tokens.size();
    const auto end = first + static_cast<std::size_t>(segment.length);
    batch.tokens.resize(end);
    batch.labels.resize(end);
    dataset.read(segment.document, segment.begin,
                 std::span(batch.tokens).subspan(first));
    dataset.read_labels(segment.document, segment.begin,
                        std::span(batch.labels).subspan(first));
    batch.cu_seqlens.push_back(static_cast<std::int64_t>(end));
  }
}

}  // namespace

void append_row(const TokenDataset& dataset, std::span<const Segment> row,
                bool mask_document_end, MicroBatch& batch) {
  ++batch.rows;
  batch.valid_labels += count_valid_labels(dataset, row, mask_document_end);
  if (dataset.has_labels()) {
    append_labelled_row(dataset, row, batch);
    return;
  }
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
}

std::int64_t count_valid_labels(const TokenDataset& dataset,
                                std::span<const Segment> row,
                                bool mask_document_end) {
  std::int64_t valid = count_tokens(row);
  if (dataset.has_labels()) {
    std::vector<std::int64_t> labels;
    for (const Segment& segment : row) {
      labels.resize(static_cast<std::size_t>(segment.length));
      dataset.read_labels(segment.document, segment.begin, labels);
      valid -= std::count(labels.begin(), labels.end(), kNoLabel);
    }
    return valid;
  }
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
