#pragma once
// Tensors as the code that writes files sees them, wherever they live.

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "osdn/core/tensor_view.h"

namespace osdn::ops {

/// For the floating types that weights, moments and states have. Throws Error
/// for another.
DType dtype_of(at::ScalarType type);

at::ScalarType scalar_type_of(DType dtype);

/// Views of tensors in host memory. A tensor on the CPU is seen where it is, so
/// writing through its view changes it; one on a GPU is copied.
class HostTensors {
 public:
  /// Contiguous tensors only.
  void add(std::string name, const at::Tensor& tensor);
  /// Valid while this object and, on the CPU, the tensors' memory live.
  const std::vector<TensorView>& views() const { return views_; }

 private:
  std::vector<TensorView> views_;
  std::vector<at::Tensor> kept_;
};

}  // namespace osdn::ops
