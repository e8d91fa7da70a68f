#pragma once
// A named, typed, shaped piece of memory: how parameters and optimizer state
// reach the checkpoint and distribution code, which never see LibTorch.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace osdn {

enum class DType { kF64, kF32, kF16, kBF16, kI64, kI32, kU16, kU8 };

/// Bytes of one element.
std::size_t size_of(DType dtype);
/// The safetensors spelling: "F64", "F32", "F16", "BF16", "I64", "I32",
/// "U16", "U8".
std::string_view name_of(DType dtype);
/// Inverse of name_of; throws Error naming the spellings that exist.
DType dtype_from_name(std::string_view name);

/// Contiguous, row-major; does not own `data`.
struct TensorView {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  void* data = nullptr;

  std::int64_t numel() const;
  std::size_t bytes() const;
};

}  // namespace osdn
