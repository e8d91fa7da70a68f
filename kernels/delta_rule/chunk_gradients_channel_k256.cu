// Instances of the gradient kernel for key width 256, one log decay a channel.

#include "kernels/delta_rule/chunk_gradients.cuh"

namespace osdn::kernels::delta_rule::chunk {

void gradients_channel_k256(const Args& args, Stream stream) {
  args.separate_key ? launch_gradients<256, true, false, true>(args, stream)
                    : launch_gradients<256, false, false, true>(args, stream);
}

}  // namespace osdn::kernels::delta_rule::chunk
