#include "osdn/checkpoint/finite_check.h"

#include <algorithm>
#include <limits>

namespace osdn::checkpoint {

namespace {

// Layout of a floating-point type as an integer: all exponent bits set means
// NaN or infinity, and with a mantissa of zero, infinity.
template <typename Bits>
struct Layout {
  Bits exponent;
  Bits mantissa;
};

// A block at a time without a branch inside, so that the compiler can use
// vector instructions; the memory's speed is the limit.
template <typename Bits>
std::optional<NonFinite> scan(const TensorView& tensor, Layout<Bits> layout) {
  constexpr std::int64_t kBlock = 4096;
  const auto* values = static_cast<const Bits*>(tensor.data);
  const std::int64_t count = tensor.numel();
  for (std::int64_t start = 0; start < count; start += kBlock) {
    const std::int64_t end = std::min(count, start + kBlock);
    bool bad = false;
    for (std::int64_t i = start; i < end; ++i) {
      bad |= (values[i] & layout.exponent) == layout.exponent;
    }
    for (std::int64_t i = start; bad && i < end; ++i) {
      if ((values[i] & layout.exponent) != layout.exponent) {
        continue;
      }
      using Limits = std::numeric_limits<double>;
      double value = Limits::quiet_NaN();
      if ((values[i] & layout.mantissa) == 0) {
        // What is above exponent and mantissa is the sign.
        const bool negative = values[i] > (layout.exponent | layout.mantissa);
        value = negative ? -Limits::infinity() : Limits::infinity();
      }
      return NonFinite{tensor.name, i, value};
    }
  }
  return std::nullopt;
}

std::optional<NonFinite> scan(const TensorView& tensor) {
  switch (tensor.dtype) {
    case DType::kF64:
      return scan<std::uint64_t>(tensor,
                                 {0x7FF0000000000000, 0x000FFFFFFFFFFFFF});
    case DType::kF32:
      return scan<std::uint32_t>(tensor, {0x7F800000, 0x007FFFFF});
    case DType::kF16:
      return scan<std::uint16_t>(tensor, {0x7C00, 0x03FF});
    case DType::kBF16:
      return scan<std::uint16_t>(tensor, {0x7F80, 0x007F});
    case DType::kI64:
    case DType::kI32:
    case DType::kU16:
    case DType::kU8:
      break;
  }
  return std::nullopt;
}

}  // namespace

std::optional<NonFinite> find_non_finite(std::span<const TensorView> tensors) {
  for (const TensorView& tensor : tensors) {
    if (auto found = scan(tensor)) {
      return found;
    }
  }
  return std::nullopt;
}

}  // namespace osdn::checkpoint
