#include "osdn/ops/pack.h"

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "pack_cuda.h"

namespace osdn::ops {

void pack(const at::Tensor& flat, const std::vector<PackedPart>& parts) {
  for (const PackedPart& part : parts) {
    const bool fits = part.begin >= 0 && part.numel >= 0 &&
                      part.begin + part.numel <= flat.numel();
    if (!fits || (part.from.defined() && part.from.numel() != part.numel)) {
      throw Error(concat("a part of ", part.numel, " elements from ",
                         part.begin, " on does not go into a flat tensor of ",
                         flat.numel()));
    }
  }
  if (flat.is_cuda()) return pack_cuda(flat, parts);
  for (const PackedPart& part : parts) {
    at::Tensor place = flat.narrow(0, part.begin, part.numel);
    if (part.from.defined()) {
      place.copy_(part.from.reshape(-1));
    } else {
      place.zero_();
    }
  }
}

}  // namespace osdn::ops
