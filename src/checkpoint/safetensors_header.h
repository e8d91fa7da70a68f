#pragma once
// The JSON header of a safetensors file, read strictly.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "osdn/checkpoint/safetensors.h"
#include "osdn/core/tensor_view.h"

namespace osdn::checkpoint {

/// The limit of the format's reference implementation.
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

struct HeaderTensor {
  TensorView view;  ///< data is null
  std::uint64_t begin = 0;
  std::uint64_t end = 0;  ///< offsets into the data part
};

struct Header {
  std::vector<HeaderTensor> tensors;  ///< by offset
  Metadata metadata;
};

/// Parses and checks a header against the number of bytes behind it. `where`
/// names the file in messages.
Header parse_header(std::string_view json, std::uint64_t data_bytes,
                    const std::string& where);

}  // namespace osdn::checkpoint
