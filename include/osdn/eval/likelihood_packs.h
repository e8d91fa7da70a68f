#pragma once
// Which log-likelihood rows run together, and which run their common beginning
// once.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "osdn/eval/token_row.h"

namespace osdn::eval {

/// Rows of one document.
struct RowGroup {
  std::vector<std::size_t> rows{};
  /// Tokens that all rows begin with, whole chunks, none of them scored; 0:
  /// each row is run from its own start.
  std::int64_t shared = 0;
};

/// Neighbours of one document, with what they share where that saves enough
/// tokens to be worth a second pass.
std::vector<RowGroup> row_groups(const RequestBatch& batch,
                                 std::span<const TokenRow> rows);

struct PackLimits {
  std::int64_t tokens = 8192;
  /// Of the states that rows go on from, as bytes_per_state of each row and
  /// bytes_per_token of what it shares; a pass keeps them about three times.
  std::int64_t state_bytes = std::int64_t{1} << 30;
  std::int64_t bytes_per_state = 0;
  std::int64_t bytes_per_token = 0;
};

/// Groups that run together, longest groups first, those that share apart from
/// those that do not. A group of more than the limit is a pack of its own.
std::vector<std::vector<RowGroup>> pack_groups(std::vector<RowGroup> groups,
                                               std::span<const TokenRow> rows,
                                               const PackLimits& limits);

}  // namespace osdn::eval
