#pragma once
// The compiled instances of the chunk version, by key width. `warps` times 16
// is the number of value columns of a block, but 8 warps share 64 with K = 256.

#include "kernels/delta_rule/layout.h"

namespace osdn::kernels::delta_rule::chunk {

/// What a scan multiplies: k itself is written; a separate write key; or the
/// operands of a per-channel gate, which carry their decay.
enum class Operands { kRaw, kWriteKey, kDecayed };

void prepare_k64(const Args& args, Stream stream);
void prepare_k128(const Args& args, Stream stream);
void prepare_k256(const Args& args, Stream stream);
void prepare_channel_k64(const Args& args, Stream stream);
void prepare_channel_k128(const Args& args, Stream stream);
void prepare_channel_k256(const Args& args, Stream stream);
void scan_k64(const Args& args, Operands operands, int warps, Stream stream);
void scan_k128(const Args& args, Operands operands, int warps, Stream stream);
void scan_k256(const Args& args, Operands operands, int warps, Stream stream);
void backward_scans_k64(const Args& args, Operands operands, bool states,
                        bool reverse, int warps, Stream stream);
void backward_scans_k128(const Args& args, Operands operands, bool states,
                         bool reverse, int warps, Stream stream);
void backward_scans_k256(const Args& args, Operands operands, bool states,
                         bool reverse, int warps, Stream stream);
void gradients_channel_k64(const Args& args, Stream stream);
void gradients_channel_k128(const Args& args, Stream stream);
void gradients_channel_k256(const Args& args, Stream stream);
void gradients_k64(const Args& args, Stream stream);
void gradients_k128(const Args& args, Stream stream);
void gradients_k256(const Args& args, Stream stream);

}  // namespace osdn::kernels::delta_rule::chunk
