#pragma once
// Small tensors for tests of code that sees TensorView only.

#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "osdn/core/tensor_view.h"

namespace osdn::test {

/// Owns the memory of the views that it hands out.
class Tensors {
 public:
  /// Bytes of the elements as they are; T must have the dtype's size.
  template <typename T>
  TensorView& add(const std::string& name, DType dtype,
                  std::vector<std::int64_t> shape,
                  const std::vector<T>& values) {
    memory_.emplace_back(values.size() * sizeof(T));
    if (!values.empty()) {
      std::memcpy(memory_.back().data(), values.data(), memory_.back().size());
    }
    views_.push_back({name, dtype, std::move(shape), memory_.back().data()});
    return views_.back();
  }
  const std::vector<TensorView>& views() const { return views_; }

 private:
  std::deque<std::vector<std::byte>> memory_;
  std::vector<TensorView> views_;
};

}  // namespace osdn::test
