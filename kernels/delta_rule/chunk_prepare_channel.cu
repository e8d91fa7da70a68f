// Instances of the prepare kernel for a per-channel gate.

#include "kernels/delta_rule/chunk_prepare_channel.cuh"

namespace osdn::kernels::delta_rule::chunk {

void prepare_channel_k64(const Args& args, Stream stream) {
  args.separate_key ? launch_prepare_channel<64, true>(args, stream)
                    : launch_prepare_channel<64, false>(args, stream);
}
void prepare_channel_k128(const Args& args, Stream stream) {
  args.separate_key ? launch_prepare_channel<128, true>(args, stream)
                    : launch_prepare_channel<128, false>(args, stream);
}
void prepare_channel_k256(const Args& args, Stream stream) {
  args.separate_key ? launch_prepare_channel<256, true>(args, stream)
                    : launch_prepare_channel<256, false>(args, stream);
}

}  // namespace osdn::kernels::delta_rule::chunk
