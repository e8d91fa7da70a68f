#pragma once
// The preconditioner on a GPU: kernels/preconditioner behind autograd. Inputs
// are checked already.

#include "osdn/ops/preconditioner.h"

namespace osdn::ops {

PreconditionerOutput preconditioner_cuda(const PreconditionerInputs& inputs,
                                         const Documents& documents,
                                         const PreconditionerOptions& options,
                                         bool keep);

/// d before each token's own update, fp32 [T, HV, K].
at::Tensor preconditioner_trace_cuda(const PreconditionerInputs& inputs,
                                     const Documents& documents,
                                     const PreconditionerOptions& options);

}  // namespace osdn::ops
