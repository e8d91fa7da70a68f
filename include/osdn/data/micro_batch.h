#pragma once
// What the model takes: packed tokens with their labels.

#include <cstdint>
#include <span>
#include <vector>

#include "osdn/data/packing.h"
#include "osdn/data/token_dataset.h"

namespace osdn::data {

/// Rows one behind another. Nothing crosses a boundary of cu_seqlens but the
/// labels at documents' ends.
struct MicroBatch {
  std::vector<std::int32_t> tokens;            ///< [T]
  std::vector<std::int64_t> labels;            ///< [T], kNoLabel: none
  std::vector<std::int64_t> cu_seqlens = {0};  ///< [N+1], 0 first, T last
  std::int64_t rows = 0;          ///< 0: empty, T = 0 (a rank without a share)
  std::int64_t valid_labels = 0;  ///< labels other than kNoLabel
};

/// Appends a row. A dataset's own labels are taken as they are. Else the label
/// is the next token. Where a document goes on behind
/// a cut (in another piece or another row) it is still its true next token; at
/// a document's last token it is the first token of the next document in the
/// row, or none with mask_document_end, and none at the row's end.
void append_row(const TokenDataset& dataset, std::span<const Segment> row,
                bool mask_document_end, MicroBatch& batch);

/// Valid labels that append_row would give, without reading a token (but the
/// labels where the dataset has its own).
std::int64_t count_valid_labels(const TokenDataset& dataset,
                                std::span<const Segment> row,
                                bool mask_document_end);

/// Tokens of a row.
std::int64_t count_tokens(std::span<const Segment> row);

}  // namespace osdn::data
