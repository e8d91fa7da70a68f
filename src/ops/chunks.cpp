#include "chunks.h"

namespace osdn::ops {

std::vector<std::int64_t> chunk_offsets(const Documents& documents) {
  std::vector<std::int64_t> offsets{0};
  for (std::int64_t n = 0; n < documents.count(); ++n) {
    const std::int64_t length = documents.end(n) - documents.begin(n);
    offsets.push_back(offsets.back() + (length + kChunk - 1) / kChunk);
  }
  return offsets;
}

}  // namespace osdn::ops
