#pragma once
// How the documents of an epoch become rows of tokens.
//
// Each document is split into pieces of at most context_length tokens; state
// restarts with each piece. Rows of at most sequence_length tokens are filled
// with pieces in the epoch's order:
//
//   kDocuments  whole pieces, greedily; one that does not fit starts the next
//               row. Rows are ragged, nothing is padded.
//   kStream     the pieces one behind another, cut every sequence_length tokens
//               exactly; a piece cut there goes on in the next row as a segment
//               of its own.
//
// The last row of an epoch is short and is served: every token of an epoch is
// in exactly one row, nothing is dropped, and no row mixes two epochs.

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "osdn/data/sample_order.h"
#include "osdn/data/token_dataset.h"

namespace osdn::data {

enum class Packing { kDocuments, kStream };

/// "documents" or "stream"; throws Error (kUsage) naming these otherwise.
Packing packing_from_name(std::string_view name);

struct PackingOptions {
  Packing packing = Packing::kDocuments;
  std::int64_t context_length = 4096;
  std::int64_t sequence_length = 65536;
  /// No label at a document's last token; otherwise its label is the first
  /// token of the next document in the row.
  bool mask_document_end = false;
};

/// Throws Error (kUsage) unless 1 <= context_length <= sequence_length.
void check(const PackingOptions& options);

/// Tokens of one document that stand together in a row: one entry of
/// cu_seqlens.
struct Segment {
  std::uint64_t document = 0;  ///< in the dataset
  std::uint64_t begin = 0;     ///< token of the document
  std::uint64_t length = 0;
  bool ends_document = false;

  bool operator==(const Segment&) const = default;
};

/// The rows of one epoch. Building takes one pass over the documents; memory is
/// 16 bytes a row.
class EpochRows {
 public:
  /// `dataset` must outlive this.
  EpochRows(const TokenDataset& dataset, const PackingOptions& options,
            const DocumentOrder& order);

  std::uint64_t row_count() const { return starts_.size() - 1; }

  /// The segments of a row; row < row_count().
  std::vector<Segment> segments(std::uint64_t row) const;

 private:
  /// Where a row starts: a place in the epoch's order, a token of the document.
  struct Start {
    std::uint64_t place;
    std::uint64_t offset;
  };

  const TokenDataset& dataset_;
  const std::uint64_t context_length_;
  const DocumentOrder order_;
  std::vector<Start> starts_;  // and the epoch's end
};

/// EpochRows::row_count() without the memory: for kStream at once, for
/// kDocuments by a pass over the documents.
std::uint64_t count_rows(const TokenDataset& dataset,
                         const PackingOptions& options,
                         const DocumentOrder& order);

}  // namespace osdn::data
