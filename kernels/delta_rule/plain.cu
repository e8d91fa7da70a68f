// Launchers of version 0.

#include "kernels/delta_rule/plain.cuh"

namespace osdn::kernels::delta_rule {
namespace {

using namespace plain;

template <typename Kernel>
void run(const char* name, Kernel bf16, Kernel fp32, Element element,
         std::int64_t blocks, std::int64_t shared_bytes, Stream stream,
         const Args& args) {
  launch(name, element == Element::kBF16 ? bf16 : fp32, blocks, kThreads,
         shared_bytes, stream, args);
}

std::int64_t scan_blocks(const Args& args) {
  return args.N * args.HV * ((args.V + kSlice - 1) / kSlice);
}
std::int64_t scan_shared_bytes(const Args& args) {
  return 4 * kSlice * (args.K + 2 * kChunk);
}

void run_prepare(const Args& args, Element element, Stream stream) {
  run("delta_rule plain prepare", prepare<Bf16>, prepare<float>, element,
      args.max_chunks * args.HV, 4 * 2 * kChunk * kPitch, stream, args);
}
void run_scan(const Args& args, Element element, Stream stream) {
  run("delta_rule plain scan", scan<Bf16, true>, scan<float, true>, element,
      scan_blocks(args), scan_shared_bytes(args), stream, args);
}
void run_backward_scans(const Args& args, Element element, bool states,
                        bool reversed, Stream stream) {
  if (states) {
    run("delta_rule plain states", scan<Bf16, false>, scan<float, false>,
        element, scan_blocks(args), scan_shared_bytes(args), stream, args);
  }
  if (reversed) {
    run("delta_rule plain reverse", reverse<Bf16>, reverse<float>, element,
        scan_blocks(args), scan_shared_bytes(args), stream, args);
  }
}
void run_gradients(const Args& args, Element element, Stream stream) {
  run("delta_rule plain gradients", gradients<Bf16>, gradients<float>, element,
      args.max_chunks * args.H, gradients_shared_bytes(args), stream, args);
}

}  // namespace

const Version kPlainVersion = {run_prepare, run_scan, run_backward_scans,
                               run_gradients};

}  // namespace osdn::kernels::delta_rule
