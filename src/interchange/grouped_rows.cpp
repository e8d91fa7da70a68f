#include "grouped_rows.h"

#include <cstring>

namespace osdn::interchange {

using config::LayerKind;
using config::ModelConfig;

namespace {

// Bytes of one head: its rows with everything behind the first dimension.
std::size_t head_bytes(const TensorView& tensor, std::int64_t rows) {
  return tensor.bytes() / static_cast<std::size_t>(tensor.shape.front()) *
         static_cast<std::size_t>(rows);
}

}  // namespace

std::optional<std::int64_t> rows_of_a_head(const ModelConfig& model,
                                           std::string_view name) {
  if (model.layer != LayerKind::kKda ||
      model.value_heads() == model.num_heads) {
    return std::nullopt;
  }
  for (const std::string_view one :
       {".b_proj.weight", ".A_log", ".osgm_a_proj.weight",
        ".osgm_a_proj.bias"}) {
    if (name.ends_with(one)) return 1;
  }
  for (const std::string_view per_channel : {".f_proj.1.weight", ".dt_bias"}) {
    if (name.ends_with(per_channel)) return model.key_width();
  }
  return std::nullopt;
}

std::vector<std::byte> repeat_heads(const TensorView& tensor, std::int64_t rows,
                                    std::int64_t group) {
  const std::size_t size = head_bytes(tensor, rows);
  const auto* source = static_cast<const std::byte*>(tensor.data);
  std::vector<std::byte> out;
  out.reserve(tensor.bytes() * static_cast<std::size_t>(group));
  for (std::size_t at = 0; at < tensor.bytes(); at += size) {
    for (std::int64_t copy = 0; copy < group; ++copy) {
      out.insert(out.end(), source + at, source + at + size);
    }
  }
  return out;
}

std::optional<std::vector<std::byte>> collapse_heads(const TensorView& tensor,
                                                     std::int64_t rows,
                                                     std::int64_t group) {
  const std::size_t size = head_bytes(tensor, rows);
  const auto* source = static_cast<const std::byte*>(tensor.data);
  std::vector<std::byte> out;
  for (std::size_t at = 0; at < tensor.bytes();
       at += size * static_cast<std::size_t>(group)) {
    for (std::int64_t copy = 1; copy < group; ++copy) {
      if (std::memcmp(source + at,
                      source + at + size * static_cast<std::size_t>(copy),
                      size) != 0) {
        return std::nullopt;
      }
    }
    out.insert(out.end(), source + at, source + at + size);
  }
  return out;
}

}  // namespace osdn::interchange
