#include "osdn/core/tensor_view.h"

#include <array>
#include <limits>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"

namespace osdn {

namespace {

struct Spelling {
  DType dtype;
  std::string_view name;
  std::size_t size;
};

constexpr std::array<Spelling, 8> kSpellings = {{
    {DType::kF64, "F64", 8},
    {DType::kF32, "F32", 4},
    {DType::kF16, "F16", 2},
    {DType::kBF16, "BF16", 2},
    {DType::kI64, "I64", 8},
    {DType::kI32, "I32", 4},
    {DType::kU16, "U16", 2},
    {DType::kU8, "U8", 1},
}};

const Spelling& spelling_of(DType dtype) {
  for (const Spelling& spelling : kSpellings) {
    if (spelling.dtype == dtype) {
      return spelling;
    }
  }
  throw Error(
      concat("a dtype of value ", static_cast<int>(dtype), " does not exist"));
}

}  // namespace

std::size_t size_of(DType dtype) {
  return spelling_of(dtype).size;
}

std::string_view name_of(DType dtype) {
  return spelling_of(dtype).name;
}

DType dtype_from_name(std::string_view name) {
  std::string known;
  for (const Spelling& spelling : kSpellings) {
    if (spelling.name == name) {
      return spelling.dtype;
    }
    known += known.empty() ? "" : ", ";
    known += spelling.name;
  }
  throw Error(concat("dtype \"", name, "\" is not known; use one of ", known),
              ExitCode::kBadInput);
}

std::int64_t TensorView::numel() const {
  std::int64_t product = 1;
  for (const std::int64_t size : shape) {
    if (size < 0) {
      throw Error(concat("tensor ", name, " has a negative size ", size));
    }
    if (__builtin_mul_overflow(product, size, &product)) {
      throw Error(
          concat("tensor ", name, " has more elements than 63 bits can count"));
    }
  }
  return product;
}

std::size_t TensorView::bytes() const {
  std::size_t product = 0;
  if (__builtin_mul_overflow(static_cast<std::size_t>(numel()), size_of(dtype),
                             &product) ||
      product > static_cast<std::size_t>(
                    std::numeric_limits<std::ptrdiff_t>::max())) {
    throw Error(concat("tensor ", name, " of ", numel(), " elements of ",
                       name_of(dtype), " is larger than memory can be"));
  }
  return product;
}

}  // namespace osdn
