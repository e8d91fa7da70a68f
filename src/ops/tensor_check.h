#pragma once
// Checks that name the operator and the tensor.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace osdn::ops {

/// Throws Error unless `tensor` has exactly `shape`, and `like`'s dtype and
/// device. `op` and `name` go into the message.
void check_tensor(const char* op, const char* name, const at::Tensor& tensor,
                  const std::vector<std::int64_t>& shape,
                  const at::Tensor& like);

/// The same for the small tensors that steer an operator (beta, g, r, d,
/// states, convolution and norm weights): `like`'s dtype on the CPU, fp32 on a
/// GPU.
void check_control(const char* op, const char* name, const at::Tensor& tensor,
                   const std::vector<std::int64_t>& shape,
                   const at::Tensor& like);

/// Throws Error unless the operators are built for the tensor: float or double
/// on the CPU, float or bfloat16 on a GPU.
void check_computable(const char* op, const at::Tensor& tensor);

/// Data pointer of a contiguous tensor, null for an undefined one.
template <typename T>
T* data_or_null(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.data_ptr<T>() : nullptr;
}

/// Gradients are on and one of the tensors (undefined ones aside) needs its
/// own.
bool wants_gradient(std::initializer_list<at::Tensor> tensors);

/// The tensor itself or its contiguous copy; undefined stays undefined.
at::Tensor contiguous(const at::Tensor& tensor);

}  // namespace osdn::ops
