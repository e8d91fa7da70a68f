#pragma once
// Checks that name the operator and the tensor.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace osdn::ops {

/// Throws Error unless `tensor` has exactly `shape`, and `like`'s dtype and
/// device. `op` and `name` go into the message.
void check_tensor(const char* op, const char* name, const at::Tensor& tensor,
                  const std::vector<std::int64_t>& shape,
                  const at::Tensor& like);

/// Throws Error unless the tensor is a float or double tensor on the CPU: the
/// types that the CPU operators are built for.
void check_cpu_float(const char* op, const at::Tensor& tensor);

/// Data pointer of a contiguous tensor, null for an undefined one.
template <typename T>
T* data_or_null(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.data_ptr<T>() : nullptr;
}

/// An input that may be absent, as autograd functions take it: they refuse an
/// undefined tensor.
using MaybeTensor = std::optional<at::Tensor>;
inline MaybeTensor maybe(const at::Tensor& tensor) {
  return tensor.defined() ? MaybeTensor(tensor) : std::nullopt;
}

/// The tensor itself or its contiguous copy; undefined stays undefined.
at::Tensor contiguous(const at::Tensor& tensor);

}  // namespace osdn::ops
