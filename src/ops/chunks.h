#pragma once
// How documents are cut into chunks: every chunk but a document's last has
// kChunk tokens, and none crosses a boundary.

#include <cstdint>
#include <vector>

#include "osdn/ops/chunk_length.h"
#include "osdn/ops/documents.h"

namespace osdn::ops {

/// Index of each document's first chunk among all chunks; the last entry is
/// their number.
std::vector<std::int64_t> chunk_offsets(const Documents& documents);

inline std::int64_t count_chunks(const Documents& documents) {
  return chunk_offsets(documents).back();
}

}  // namespace osdn::ops
