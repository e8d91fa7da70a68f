#pragma once
// Every operator that training a model takes, with its shapes: the one list
// that drives the comparison of CPU and GPU, the finite differences and the
// speed table of osdn-bench.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "osdn/ops/documents.h"

namespace osdn::bench {

/// How an input is held on a GPU.
enum class Role {
  kActivation,  ///< bf16 or fp32, as the comparison says
  kControl,     ///< fp32: beta, g, r, d, states, norm and filter weights
  kLabels,      ///< int64, no gradient
};

struct OperatorInput {
  std::string name;
  at::Tensor value;  ///< float64 on the CPU, float on a GPU; int64 for labels
  Role role = Role::kActivation;
};

using OperatorRun = std::function<std::vector<at::Tensor>(
    const std::vector<at::Tensor>& inputs, const ops::Documents& documents)>;

/// What a case is for.
enum class Use {
  kCheck,  ///< small: differences and CPU against GPU
  kSpeed,  ///< a shape of the speed table
};

struct OperatorCase {
  std::string op;     ///< "delta_rule, per head"
  std::string shape;  ///< "340m" or what is special about it
  Use use = Use::kCheck;
  /// No kink lies near its inputs, so that differences tell its gradient.
  bool smooth = true;
  /// Without: it runs, and is timed, without gradients.
  bool differentiable = true;
  std::vector<std::int64_t> cu_seqlens;
  /// Fresh values of a seed on a device, no element of them special.
  std::function<std::vector<OperatorInput>(std::uint64_t seed,
                                           at::Device device)>
      draw;
  OperatorRun run;  ///< outputs in a fixed order
  /// Arithmetic of a forward pass in multiply-adds times two, and the bytes
  /// that it must move in bf16; the backward is counted as `backward` times as
  /// much of both. 0: not counted.
  double flops = 0;
  double bytes = 0;
  double backward = 2;
};

/// All cases, operator by operator.
std::vector<OperatorCase> operator_table();

}  // namespace osdn::bench
