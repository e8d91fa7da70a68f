#include "tensor_check.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <sstream>

#include "osdn/core/error.h"

namespace osdn::ops {

namespace {

void check(const char* op, const char* name, const at::Tensor& tensor,
           const std::vector<std::int64_t>& shape, at::ScalarType type,
           at::Device device) {
  std::ostringstream message;
  message << op << ": " << name << " ";
  if (!tensor.defined()) {
    message << "is missing";
  } else if (tensor.sizes() != at::IntArrayRef(shape)) {
    message << "has shape " << tensor.sizes() << ", expected "
            << at::IntArrayRef(shape);
  } else if (tensor.scalar_type() != type) {
    message << "is " << tensor.scalar_type() << ", expected " << type;
  } else if (tensor.device() != device) {
    message << "is on " << tensor.device() << ", expected " << device
            << " like the first input";
  } else {
    return;
  }
  throw Error(message.str());
}

}  // namespace

void check_tensor(const char* op, const char* name, const at::Tensor& tensor,
                  const std::vector<std::int64_t>& shape,
                  const at::Tensor& like) {
  check(op, name, tensor, shape, like.scalar_type(), like.device());
}

void check_control(const char* op, const char* name, const at::Tensor& tensor,
                   const std::vector<std::int64_t>& shape,
                   const at::Tensor& like) {
  check(op, name, tensor, shape,
        like.is_cpu() ? like.scalar_type() : at::kFloat, like.device());
}

void check_computable(const char* op, const at::Tensor& tensor) {
  const at::ScalarType type = tensor.scalar_type();
  const at::Device device = tensor.device();
  if (device.is_cpu() && (type == at::kFloat || type == at::kDouble)) return;
  if (device.is_cuda() && (type == at::kFloat || type == at::kBFloat16)) return;
  std::ostringstream message;
  message << op << ": no implementation for " << type << " on " << device
          << "; use float or double on the CPU, float or bfloat16 on a GPU";
  throw Error(message.str());
}

bool wants_gradient(std::initializer_list<at::Tensor> tensors) {
  return at::GradMode::is_enabled() &&
         std::any_of(tensors.begin(), tensors.end(), [](const at::Tensor& x) {
           return x.defined() && x.requires_grad();
         });
}

at::Tensor contiguous(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.contiguous() : tensor;
}

}  // namespace osdn::ops
