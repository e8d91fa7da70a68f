#include "tensor_check.h"

#include <ATen/ATen.h>

#include <sstream>

#include "osdn/core/error.h"

namespace osdn::ops {

void check_tensor(const char* op, const char* name, const at::Tensor& tensor,
                  const std::vector<std::int64_t>& shape,
                  const at::Tensor& like) {
  std::ostringstream message;
  message << op << ": " << name << " ";
  if (!tensor.defined()) {
    message << "is missing";
  } else if (tensor.sizes() != at::IntArrayRef(shape)) {
    message << "has shape " << tensor.sizes() << ", expected "
            << at::IntArrayRef(shape);
  } else if (tensor.scalar_type() != like.scalar_type()) {
    message << "is " << tensor.scalar_type() << ", expected "
            << like.scalar_type() << " like the first input";
  } else if (tensor.device() != like.device()) {
    message << "is on " << tensor.device() << ", expected " << like.device()
            << " like the first input";
  } else {
    return;
  }
  throw Error(message.str());
}

void check_cpu_float(const char* op, const at::Tensor& tensor) {
  const bool typed =
      tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kDouble;
  if (tensor.device().is_cpu() && typed) return;
  std::ostringstream message;
  message << op << ": no implementation for " << tensor.scalar_type() << " on "
          << tensor.device() << "; use float or double on the CPU";
  throw Error(message.str());
}

at::Tensor contiguous(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.contiguous() : tensor;
}

}  // namespace osdn::ops
