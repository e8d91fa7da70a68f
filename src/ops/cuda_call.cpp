#include "cuda_call.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

namespace osdn::ops {

kernels::Element element_of(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kBFloat16 ? kernels::Element::kBF16
                                               : kernels::Element::kF32;
}

at::Tensor device_bytes(std::int64_t count, const at::Tensor& like) {
  return at::empty({count}, like.options().dtype(at::kByte));
}

at::Tensor empty_beside(const at::Tensor& tensor) {
  return tensor.defined() ? at::empty_like(tensor) : tensor;
}

}  // namespace osdn::ops
