#pragma once
// Which rows of a step (or of a validation set) a rank takes.

#include <algorithm>
#include <cstdint>

#include "osdn/core/narrow.h"

namespace osdn::data {

struct RowRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// `rows` rows dealt in groups of world_size * micro_batch.
struct Deal {
  std::int64_t rows;
  std::int64_t micro_batch;
  std::int64_t world_size;

  /// Micro-batches of every rank, the same for all.
  std::int64_t groups() const { return div_up(rows, world_size * micro_batch); }
  /// This rank's rows of a group; empty where the rows have run out.
  RowRange share(std::int64_t group, std::int64_t rank) const {
    const std::int64_t begin = (group * world_size + rank) * micro_batch;
    return {std::min(begin, rows), std::min(begin + micro_batch, rows)};
  }
};

}  // namespace osdn::data
