#pragma once
// Numbers of one floating-point type as those of another, rounded to the
// nearest, ties to even (IEEE 754); every widening is exact.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "osdn/core/tensor_view.h"

namespace osdn::interchange {

float from_bf16(std::uint16_t bits);
float from_f16(std::uint16_t bits);
/// Overflow gives infinity, a NaN stays one.
std::uint16_t to_bf16(float value);
std::uint16_t to_f16(float value);

/// The tensor's numbers as `dtype`: F32, F16 or BF16, from these or F64. A
/// finite number that the type cannot hold is an Error (kBadInput) that names
/// the tensor, the number and where it stands.
std::vector<std::byte> convert(const TensorView& tensor, DType dtype);

}  // namespace osdn::interchange
