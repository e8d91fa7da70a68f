#pragma once
// The ranks' parts of one shard of gradients, added up in rank order: in fp32,
// bf16 rounded once. The same bits whatever arrives first.

#include "kernels/common/launcher.h"

namespace osdn::kernels {

inline constexpr int kMostShardParts = 16;

struct ShardSumParams {
  std::int64_t count = 0;  ///< elements; a multiple of 8
  Element element = Element::kF32;
  int parts = 0;  ///< 1 to kMostShardParts
  /// [count] each, element, 16-byte aligned.
  const void* part[kMostShardParts] = {};
  void* sum = nullptr;  ///< [count], element; may be one of the parts
};

const char* shard_sum_unsupported(const ShardSumParams&);
void shard_sum(const ShardSumParams&, Stream stream);

}  // namespace osdn::kernels
