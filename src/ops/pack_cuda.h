#pragma once
// pack on a GPU.

#include "osdn/ops/pack.h"

namespace osdn::ops {

void pack_cuda(const at::Tensor& flat, const std::vector<PackedPart>& parts);

}  // namespace osdn::ops
