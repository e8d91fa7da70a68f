#include "pack_cuda.h"

#include "cuda_call.h"
#include "kernels/pack/pack.cuh"

namespace osdn::ops {

namespace {

/// Parts of one source dtype, or zeros, launched when there are enough.
class Launches {
 public:
  Launches(const at::Tensor& flat, kernels::Element from) : flat_(flat) {
    params_.from = from;
    params_.to = element_of(flat);
    params_.flat = pointer(flat);
  }

  void add(const at::Tensor& from, const PackedPart& part) {
    const int i = params_.tensors++;
    params_.source[i] = from.defined() ? pointer(from) : nullptr;
    params_.count[i] = part.numel;
    params_.begin[i] = part.begin;
    if (params_.tensors == kernels::kMostPacked) launch();
  }
  void launch() {
    kernels::pack(params_, current_stream(flat_));
    params_.tensors = 0;
  }

 private:
  const at::Tensor& flat_;
  kernels::PackParams params_;
};

}  // namespace

void pack_cuda(const at::Tensor& flat, const std::vector<PackedPart>& parts) {
  Launches bf16(flat, kernels::Element::kBF16);
  Launches fp32(flat, kernels::Element::kF32);
  std::vector<at::Tensor> kept;  // until they are launched
  for (const PackedPart& part : parts) {
    if (!part.from.defined()) {
      fp32.add(part.from, part);
      continue;
    }
    kept.push_back(part.from.contiguous());
    (element_of(kept.back()) == kernels::Element::kBF16 ? bf16 : fp32)
        .add(kept.back(), part);
  }
  bf16.launch();
  fp32.launch();
}

}  // namespace osdn::ops
