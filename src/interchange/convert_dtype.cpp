#include "osdn/interchange/convert_dtype.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"

namespace osdn::interchange {

namespace {

template <typename T>
T element(const TensorView& tensor, std::int64_t i) {
  T value;
  std::memcpy(&value,
              static_cast<const std::byte*>(tensor.data) +
                  static_cast<std::size_t>(i) * sizeof(T),
              sizeof(T));
  return value;
}

double read(const TensorView& tensor, std::int64_t i) {
  switch (tensor.dtype) {
    case DType::kF64:
      return element<double>(tensor, i);
    case DType::kF32:
      return static_cast<double>(element<float>(tensor, i));
    case DType::kF16:
      return static_cast<double>(from_f16(element<std::uint16_t>(tensor, i)));
    case DType::kBF16:
      return static_cast<double>(from_bf16(element<std::uint16_t>(tensor, i)));
    default:
      throw Error(concat("tensor ", tensor.name, " is ", name_of(tensor.dtype),
                         "; weights are F64, F32, F16 or BF16"),
                  ExitCode::kBadInput);
  }
}

template <typename T>
void write(std::vector<std::byte>& bytes, std::int64_t i, T value) {
  std::memcpy(bytes.data() + static_cast<std::size_t>(i) * sizeof(T), &value,
              sizeof(T));
}

}  // namespace

float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) {
    return static_cast<std::uint16_t>(bits >> 16 | 0x40);  // stays a NaN
  }
  // Half of the last place that stays; one less when that place is even.
  const std::uint32_t half = 0x7FFF + (bits >> 16 & 1);
  return static_cast<std::uint16_t>((bits + half) >> 16);
}

float from_f16(std::uint16_t bits) {
  const int exponent = bits >> 10 & 0x1F;
  const int mantissa = bits & 0x3FF;
  float value = 0;
  if (exponent == 0) {
    value = std::ldexp(static_cast<float>(mantissa), -24);
  } else if (exponent == 0x1F) {
    value = mantissa == 0 ? INFINITY : NAN;
  } else {
    value = std::ldexp(static_cast<float>(mantissa + 0x400), exponent - 25);
  }
  return bits & 0x8000 ? -value : value;
}

std::uint16_t to_f16(float value) {
  const auto sign = static_cast<std::uint16_t>(
      std::bit_cast<std::uint32_t>(value) >> 16 & 0x8000);
  const float size = std::fabs(value);
  if (std::isnan(value)) return sign | 0x7E00;
  if (size >= 65520) return sign | 0x7C00;  // halfway to 2^16 and above
  // The number's last place: 2^-24 below 2^-14, then ten bits below its first.
  const int exponent = size < 0x1p-14F ? -14 : std::ilogb(size);
  const auto places =
      static_cast<int>(std::nearbyint(std::ldexp(size, 10 - exponent)));
  // A carry out of the mantissa moves into the exponent by itself.
  return static_cast<std::uint16_t>(sign + ((exponent + 14) << 10) + places);
}

std::vector<std::byte> convert(const TensorView& tensor, DType dtype) {
  const std::int64_t n = tensor.numel();
  std::vector<std::byte> bytes(static_cast<std::size_t>(n) * size_of(dtype));
  for (std::int64_t i = 0; i < n; ++i) {
    const double value = read(tensor, i);
    const auto single = static_cast<float>(value);
    bool finite = std::isfinite(single);
    if (dtype == DType::kF32) {
      write(bytes, i, single);
    } else if (dtype == DType::kBF16) {
      const std::uint16_t bits = to_bf16(single);
      finite = finite && std::isfinite(from_bf16(bits));
      write(bytes, i, bits);
    } else if (dtype == DType::kF16) {
      const std::uint16_t bits = to_f16(single);
      finite = finite && std::isfinite(from_f16(bits));
      write(bytes, i, bits);
    } else {
      throw Error(concat("tensor ", tensor.name, " cannot become ",
                         name_of(dtype), "; expected F32, F16 or BF16"),
                  ExitCode::kUsage);
    }
    if (std::isfinite(value) && !finite) {
      throw Error(concat("tensor ", tensor.name, " has ", value, " at element ",
                         i, ", which is too large for ", name_of(dtype),
                         "; use F32 or BF16"),
                  ExitCode::kBadInput);
    }
  }
  return bytes;
}

}  // namespace osdn::interchange
