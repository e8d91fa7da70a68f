#pragma once
// The preconditioner's recurrence on the CPU, parallel over (document, value
// head). It steps token by token: that is exact at the box whatever happens,
// costs K operations a token where the optimistic chunk solve of math.md 4
// costs kChunk times as many, and with retention most chunks touch the box and
// would have to be redone anyway. The backward goes by chunks: it restores d
// inside each chunk from the d kept at the chunk's start.

#include <cstdint>

#include "osdn/ops/documents.h"
#include "osdn/ops/preconditioner.h"

namespace osdn::ops {

struct PreconditionerSizes {
  std::int64_t H = 0;
  std::int64_t HV = 0;
  std::int64_t K = 0;
  bool d0_per_document = false;
};

template <typename T>
struct PreconditionerForward {
  const T* k;     ///< [T, H, K]
  const T* beta;  ///< [T, HV]
  const T* r;     ///< [T, HV] or null
  const T* d0;    ///< [HV, K] or [N, HV, K]
  T* k_write;     ///< [T, HV, K] or null
  T* d_T;         ///< [N, HV, K] or null
  T* d_chunks;    ///< [chunks, HV, K], d at each chunk's start, or null
  T* d_trace;     ///< [T, HV, K] or null
};

/// grad_k is [T, HV, K], one part per value head; grad_d0 is [N, HV, K].
template <typename T>
struct PreconditionerBackward {
  const T* grad_k_write;
  const T* grad_d_T;  ///< or null
  T* grad_k;
  T* grad_beta;
  T* grad_r;  ///< or null
  T* grad_d0;
};

template <typename T>
void preconditioner_forward_cpu(const PreconditionerSizes& sizes,
                                const PreconditionerOptions& options,
                                const Documents& documents,
                                const PreconditionerForward<T>& data);

template <typename T>
void preconditioner_backward_cpu(const PreconditionerSizes& sizes,
                                 const PreconditionerOptions& options,
                                 const Documents& documents,
                                 const PreconditionerForward<T>& data,
                                 const PreconditionerBackward<T>& grads);

}  // namespace osdn::ops
