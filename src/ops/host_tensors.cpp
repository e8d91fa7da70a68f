#include "osdn/ops/host_tensors.h"

#include <utility>

#include "osdn/core/error.h"

namespace osdn::ops {

DType dtype_of(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return DType::kF64;
    case at::kFloat:
      return DType::kF32;
    case at::kHalf:
      return DType::kF16;
    case at::kBFloat16:
      return DType::kBF16;
    default:
      throw Error(std::string("no weight can be ") + at::toString(type));
  }
}

at::ScalarType scalar_type_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return at::kDouble;
    case DType::kF32:
      return at::kFloat;
    case DType::kF16:
      return at::kHalf;
    case DType::kBF16:
      return at::kBFloat16;
    case DType::kI64:
      return at::kLong;
    case DType::kI32:
      return at::kInt;
    case DType::kU16:
      return at::kUInt16;
    case DType::kU8:
      return at::kByte;
  }
  throw Error("a dtype that does not exist");
}

void HostTensors::add(std::string name, const at::Tensor& tensor) {
  const at::Tensor host = tensor.is_cpu() ? tensor : tensor.cpu();
  views_.push_back({std::move(name), dtype_of(host.scalar_type()),
                    host.sizes().vec(), host.data_ptr()});
  kept_.push_back(host);
}

}  // namespace osdn::ops
