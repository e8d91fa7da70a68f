#pragma once
// Packing done the slow and plain way, as an independent reference: every token
// in a list, rows cut from it.

#include <cstdint>
#include <vector>

#include "osdn/data/micro_batch.h"
#include "osdn/data/packing.h"

namespace osdn::data {

/// One token as it must be served.
struct PlainToken {
  std::int32_t id = 0;
  std::int64_t label = kNoLabel;
  bool starts_segment = false;
};
using PlainRow = std::vector<PlainToken>;

/// The rows of an epoch that takes `documents` in this order.
inline std::vector<PlainRow> plain_rows(
    const std::vector<std::vector<std::int32_t>>& documents,
    const PackingOptions& options) {
  const auto context = static_cast<std::size_t>(options.context_length);
  const auto room = static_cast<std::size_t>(options.sequence_length);
  struct Piece {
    std::vector<PlainToken> tokens;
    bool ends_document;
  };
  std::vector<Piece> pieces;
  for (const auto& ids : documents) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (i % context == 0) {
        pieces.push_back({});
      }
      const std::int64_t label = i + 1 < ids.size() ? ids[i + 1] : kNoLabel;
      pieces.back().tokens.push_back({ids[i], label, i % context == 0});
      pieces.back().ends_document = i + 1 == ids.size();
    }
  }
  std::vector<PlainRow> rows;
  std::vector<std::vector<bool>> ends;  // of documents, beside rows
  const auto push = [&](const PlainToken& token, bool end) {
    rows.back().push_back(token);
    ends.back().push_back(end);
  };
  const auto new_row = [&] {
    rows.emplace_back();
    ends.emplace_back();
  };
  for (const Piece& piece : pieces) {
    if (options.packing == Packing::kDocuments &&
        (rows.empty() || rows.back().size() + piece.tokens.size() > room)) {
      new_row();
    }
    for (std::size_t i = 0; i < piece.tokens.size(); ++i) {
      if (rows.empty() || rows.back().size() == room) {
        new_row();
      }
      PlainToken token = piece.tokens[i];
      token.starts_segment |= rows.back().empty();
      push(token, piece.ends_document && i + 1 == piece.tokens.size());
    }
  }
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t i = 0; i + 1 < rows[r].size(); ++i) {
      if (ends[r][i] && !options.mask_document_end) {
        rows[r][i].label = rows[r][i + 1].id;
      }
    }
  }
  return rows;
}

/// What a micro-batch of these rows must be.
inline MicroBatch plain_batch(const std::vector<PlainRow>& rows) {
  MicroBatch batch;
  for (const PlainRow& row : rows) {
    for (const PlainToken& token : row) {
      if (token.starts_segment && !batch.tokens.empty()) {
        batch.cu_seqlens.push_back(
            static_cast<std::int64_t>(batch.tokens.size()));
      }
      batch.tokens.push_back(token.id);
      batch.labels.push_back(token.label);
      batch.valid_labels += token.label != kNoLabel ? 1 : 0;
    }
  }
  if (!batch.tokens.empty()) {
    batch.cu_seqlens.push_back(static_cast<std::int64_t>(batch.tokens.size()));
  }
  batch.rows = static_cast<std::int64_t>(rows.size());
  return batch;
}

inline void expect_equal(const MicroBatch& got, const MicroBatch& expected) {
  EXPECT_EQ(got.tokens, expected.tokens);
  EXPECT_EQ(got.labels, expected.labels);
  EXPECT_EQ(got.cu_seqlens, expected.cu_seqlens);
  EXPECT_EQ(got.rows, expected.rows);
  EXPECT_EQ(got.valid_labels, expected.valid_labels);
}

}  // namespace osdn::data
