#include "osdn/arch/kept_tensors.h"

#include "delta_rule_chunks.h"
#include "widths.h"

namespace osdn::arch {

namespace {

using config::LayerKind;
using config::ModelConfig;
using config::QkActivation;
using config::QkNorm;
using config::Retention;

/// Tokens between two rows of d that the preconditioner keeps.
constexpr double kGpuScaleRows = 16;

class Keeper {
 public:
  Keeper(const ModelConfig& model, Machine machine, Compute compute)
      : model_(model),
        w_(model),
        gpu_(machine == Machine::kGpu),
        element_(element_bytes(compute)),
        control_(master_bytes(compute)),
        chunks_(model, machine, compute) {}

  std::vector<KeptTensor> delta_rule() {
    add("x", Release::kInputs, w_.h);
    convolutions();
    gates();
    if (model_.preconditioner.enabled) preconditioner();
    recurrence();
    output();
    mlp();
    return std::move(kept_);
  }

  std::vector<KeptTensor> softmax() {
    const double width = w_.heads * w_.head_dim;
    add("x", Release::kInputs, w_.h);
    control("cosines and sines", Release::kInputs, w_.head_dim);
    // Keys and values of shared heads are spread over their groups.
    add("q, k, v", Release::kRecurrence, 3 * width);
    add("o", Release::kRecurrence, width);
    control("log of the softmax's sum", Release::kRecurrence, w_.heads);
    add("o, documents together", Release::kOutput, width);
    mlp();
    return std::move(kept_);
  }

 private:
  void add(std::string_view name, Release release, double width) {
    kept_.push_back({name, release, width * element_});
  }
  void control(std::string_view name, Release release, double width) {
    kept_.push_back({name, release, width * control_});
  }
  /// So many numbers every 64 tokens of a document.
  void each_chunk(std::string_view name, Release release, double bytes) {
    kept_.push_back({name, release, bytes / kChunkTokens,
                     bytes * chunks_.of_a_document_end()});
  }

  /// LibTorch's norm on a CPU keeps what it multiplies by the weight, too.
  void norm(std::string_view name, std::string_view scaled, Release release,
            double width) {
    add(name, release, width);
    if (!gpu_) add(scaled, release, width);
  }

  void convolutions() {
    const bool deltanet = model_.layer == LayerKind::kDeltaNet;
    const QkActivation activation =
        deltanet ? model_.qk_activation : QkActivation::kSilu;
    const bool fused =
        model_.use_short_conv && activation == QkActivation::kSilu;
    double before = model_.use_short_conv ? 1 : 0;
    // These two keep their input; the others their output or nothing.
    if (activation == QkActivation::kElu) ++before;
    if (activation == QkActivation::kSilu && !fused) ++before;
    if (deltanet && model_.qk_norm == QkNorm::kSum) ++before;
    add("q, k before convolution and SiLU", Release::kInputs,
        before * 2 * w_.kd);
    add("v before convolution and SiLU", Release::kInputs, w_.vd);
    add("q", Release::kRecurrence, w_.kd);
    // The preconditioner keeps k as well.
    add("k",
        model_.preconditioner.enabled ? Release::kInputs : Release::kRecurrence,
        w_.kd);
    add("v", Release::kRecurrence, w_.vd);
  }

  void gates() {
    const bool learned =
        model_.layer != LayerKind::kDeltaNet || model_.use_beta;
    if (gpu_ && learned) add("b_proj x", Release::kInputs, w_.hv);
    if (!gpu_ && model_.allow_neg_eigval) {
      add("sigmoid of b_proj x", Release::kInputs, w_.hv);
    }
    control("beta", Release::kInputs, w_.hv);
    if (model_.layer == LayerKind::kGdn) decay(w_.hv);
    if (model_.layer == LayerKind::kKda) {
      add("f_proj.0 x", Release::kInputs, w_.v);
      decay(w_.hv * w_.k);
    }
  }

  void decay(double width) {
    // On a CPU its sum, its softplus or sigmoid.
    add("decay before its gate", Release::kInputs, (gpu_ ? 1 : 2) * width);
    control("g", Release::kRecurrence, width);
  }

  void preconditioner() {
    const Retention retention = model_.preconditioner.retention;
    if (retention == Retention::kDataDependent && gpu_) {
      add("osgm_a_proj x", Release::kInputs, w_.hv);
    }
    if (retention != Retention::kNone) {
      control("r", Release::kInputs, w_.hv);
    }
    add("k_write", Release::kRecurrence, w_.hv * w_.k);
    const double row = w_.hv * w_.k * control_;
    if (!gpu_) {
      each_chunk("d", Release::kInputs, row);
      return;
    }
    control("s", Release::kInputs, w_.hv);
    kept_.push_back({"d", Release::kInputs, row / kGpuScaleRows, row});
  }

  void recurrence() {
    if (gpu_) {
      each_chunk("chunks", Release::kRecurrence, chunks_.prepared_bytes());
      return;
    }
    each_chunk("S", Release::kRecurrence, w_.hv * w_.k * w_.v * element_);
    add("u", Release::kRecurrence, w_.vd);
  }

  void output() {
    norm("o", "o / rms", Release::kOutput, w_.vd);
    if (model_.layer == LayerKind::kKda) {
      add("g_proj.0 x", Release::kInputs, w_.v);
    }
    if (model_.output_gate()) {
      // A sigmoid keeps its output alone.
      const bool sigmoid = model_.layer == LayerKind::kKda;
      if (gpu_ || !sigmoid) add("output gate", Release::kOutput, w_.vd);
      if (!gpu_) add("activated gate, norm of o", Release::kOutput, 2 * w_.vd);
    }
    add("o_proj's input", Release::kOutput, w_.vd);
  }

  void mlp() {
    norm("stream before the MLP", "the same / rms", Release::kMlpNorm, w_.h);
    add("MLP's input", Release::kMlp, w_.h);
    // On a GPU their SiLU and product are formed again.
    add("gate and up", Release::kMlp, 2 * w_.i);
    if (!gpu_) add("SiLU of gate, product", Release::kMlp, 2 * w_.i);
    norm("stream behind the block", "the same / rms", Release::kNextNorm, w_.h);
  }

  const ModelConfig& model_;
  Widths w_;
  bool gpu_;
  double element_;
  double control_;
  DeltaRuleChunks chunks_;
  std::vector<KeptTensor> kept_;
};

}  // namespace

std::string_view name_of(Machine machine) {
  return machine == Machine::kGpu ? "a GPU" : "a CPU";
}

std::string name_of(Compute compute) {
  switch (compute) {
    case Compute::kF32:
      return "fp32";
    case Compute::kF64:
      return "fp64";
    case Compute::kBF16:
      return "bf16";
  }
  return "";
}

double element_bytes(Compute compute) {
  return compute == Compute::kBF16 ? 2 : master_bytes(compute);
}

double master_bytes(Compute compute) {
  return compute == Compute::kF64 ? 8 : 4;
}

std::vector<KeptTensor> kept_tensors(const ModelConfig& model, bool softmax,
                                     Machine machine, Compute compute) {
  Keeper keeper(model, machine, compute);
  return softmax ? keeper.softmax() : keeper.delta_rule();
}

}  // namespace osdn::arch
