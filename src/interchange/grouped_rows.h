#pragma once
// Trap 9 of layers.md 7: the authors' KDA with grouped value heads keeps its
// gates once a key head and repeats them over the group at run time; ours has
// them once a value head.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "osdn/config/config.h"
#include "osdn/core/tensor_view.h"

namespace osdn::interchange {

/// Rows that belong to one head in a tensor of this name that is kept once a
/// key head there; nothing for every other tensor and without groups.
std::optional<std::int64_t> rows_of_a_head(const config::ModelConfig& model,
                                           std::string_view name);

/// The bytes of [H rows, ...] with each head's rows repeated over its group.
std::vector<std::byte> repeat_heads(const TensorView& tensor, std::int64_t rows,
                                    std::int64_t group);

/// The inverse; nothing when the heads of a group differ in any byte.
std::optional<std::vector<std::byte>> collapse_heads(const TensorView& tensor,
                                                     std::int64_t rows,
                                                     std::int64_t group);

}  // namespace osdn::interchange
