#pragma once
// The boundaries of the documents that are packed in one row of tokens.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace osdn::ops {

/// cu_seqlens [N+1]: first 0, last T, never decreasing; equal neighbours are
/// an empty document. Every operator restarts its state at each boundary.
class Documents {
 public:
  /// Throws Error naming the index of the first boundary that is wrong.
  explicit Documents(std::vector<std::int64_t> cu_seqlens);
  /// One document of `tokens` tokens.
  static Documents single(std::int64_t tokens);

  std::int64_t count() const {
    return static_cast<std::int64_t>(cu_seqlens_.size()) - 1;
  }
  std::int64_t tokens() const { return cu_seqlens_.back(); }
  std::int64_t begin(std::int64_t n) const { return cu_seqlens_[index(n)]; }
  std::int64_t end(std::int64_t n) const { return cu_seqlens_[index(n) + 1]; }
  const std::vector<std::int64_t>& cu_seqlens() const { return cu_seqlens_; }

  /// cu_seqlens as an int64 tensor on a device, copied there once for all
  /// copies of this object. Not for several threads at a time.
  const at::Tensor& on(at::Device device) const;

 private:
  static std::size_t index(std::int64_t n) {
    return static_cast<std::size_t>(n);
  }
  std::vector<std::int64_t> cu_seqlens_;
  std::shared_ptr<at::Tensor> on_device_;
};

}  // namespace osdn::ops
