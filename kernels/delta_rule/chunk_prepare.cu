// Instances of the prepare kernel.

#include "kernels/delta_rule/chunk_instances.h"
#include "kernels/delta_rule/chunk_prepare.cuh"

namespace osdn::kernels::delta_rule::chunk {

void prepare_k64(const Args& args, Stream stream) {
  args.separate_key ? launch_prepare<64, true>(args, stream)
                    : launch_prepare<64, false>(args, stream);
}
void prepare_k128(const Args& args, Stream stream) {
  args.separate_key ? launch_prepare<128, true>(args, stream)
                    : launch_prepare<128, false>(args, stream);
}
void prepare_k256(const Args& args, Stream stream) {
  args.separate_key ? launch_prepare<256, true>(args, stream)
                    : launch_prepare<256, false>(args, stream);
}

}  // namespace osdn::kernels::delta_rule::chunk
