#include "osdn/ops/documents.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <string>

#include "osdn/core/error.h"
#include "osdn/ops/to_device.h"

namespace osdn::ops {

Documents::Documents(std::vector<std::int64_t> cu_seqlens)
    : cu_seqlens_(std::move(cu_seqlens)),
      on_device_(std::make_shared<at::Tensor>()) {
  if (cu_seqlens_.size() < 2 || cu_seqlens_.front() != 0) {
    throw Error(
        "cu_seqlens needs at least two entries and must start with 0 "
        "(got " +
        std::to_string(cu_seqlens_.size()) + " entries)");
  }
  for (std::size_t i = 1; i < cu_seqlens_.size(); ++i) {
    if (cu_seqlens_[i] < cu_seqlens_[i - 1]) {
      throw Error("cu_seqlens[" + std::to_string(i) +
                  "] = " + std::to_string(cu_seqlens_[i]) +
                  " is below cu_seqlens[" + std::to_string(i - 1) +
                  "] = " + std::to_string(cu_seqlens_[i - 1]) +
                  "; boundaries must not decrease");
    }
  }
}

Documents Documents::single(std::int64_t tokens) {
  return Documents({0, tokens});
}

const at::Tensor& Documents::on(at::Device device) const {
  if (!on_device_->defined() || on_device_->device() != device) {
    at::Tensor host =
        at::empty({static_cast<std::int64_t>(cu_seqlens_.size())}, at::kLong);
    std::copy(cu_seqlens_.begin(), cu_seqlens_.end(),
              host.mutable_data_ptr<std::int64_t>());
    *on_device_ = to_device(host, device);
  }
  return *on_device_;
}

}  // namespace osdn::ops
