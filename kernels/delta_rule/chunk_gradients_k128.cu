// Instances of the gradient kernels for key width 128, one log decay a head.

#include "kernels/delta_rule/chunk_gradients.cuh"
#include "kernels/delta_rule/chunk_gradients_wide.cuh"

namespace osdn::kernels::delta_rule::chunk {

void gradients_k128(const Args& args, Stream stream) {
  if (args.HV > args.H) {
    args.separate_key ? launch_gradients<128, true, true, false>(args, stream)
                      : launch_gradients<128, false, true, false>(args, stream);
  } else {
    args.separate_key ? launch_wide_gradients<128, true>(args, stream)
                      : launch_wide_gradients<128, false>(args, stream);
  }
}

}  // namespace osdn::kernels::delta_rule::chunk
