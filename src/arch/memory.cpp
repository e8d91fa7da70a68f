#include "osdn/arch/memory.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "delta_rule_chunks.h"
#include "osdn/arch/parameter_table.h"
#include "osdn/config/bucket_elements.h"
#include "osdn/core/concat.h"
#include "osdn/core/narrow.h"
#include "widths.h"

namespace osdn::arch {

namespace {

using config::ModelConfig;

constexpr double kMiB = 1024.0 * 1024.0;

/// Logits held at once, elements (src/ops/linear_cross_entropy.cpp).
constexpr double kLogits = 16 * kMiB;
constexpr double kGpuLogits = 256 * kMiB;
/// cuBLAS's, of each thread and stream that calls it (src/ops/gpu.cpp).
constexpr double kMatrixWorkspace = 32 * kMiB;
/// Allowances, see Memory::program.
constexpr double kCudaBytes = 1536 * kMiB;
constexpr double kNcclBytes = 1024 * kMiB;
constexpr double kProgramBytes = 140 * kMiB;
/// A tensor from this size on lies outside glibc's heap.
constexpr double kOutsideHeap = 32 * kMiB;
/// Multiprocessors over which a deterministic softmax spreads a document.
constexpr double kMultiprocessors = 132;
/// Documents that a context's length of text holds, a guess.
constexpr std::int64_t kDocumentsInContext = 4;

/// Numbers of some parameters.
struct Count {
  double narrow = 0;  ///< computed with in the model's own precision
  double wide = 0;    ///< in fp32 whatever that is

  double all() const { return narrow + wide; }
  double bytes(Compute compute) const {
    return narrow * element_bytes(compute) + wide * master_bytes(compute);
  }
};

std::optional<std::size_t> block_of(const Parameter& p) {
  constexpr std::string_view kLayer = "model.layers.";
  if (!p.name.starts_with(kLayer)) return std::nullopt;
  return std::stoul(p.name.substr(kLayer.size()));
}

struct ModelCounts {
  explicit ModelCounts(const ModelConfig& model)
      : blocks(static_cast<std::size_t>(model.num_layers)) {
    for (const Parameter& p : parameter_table(model)) {
      Count& part = of(p, model);
      const auto count = static_cast<double>(p.numel());
      (computes_in_fp32(p) ? part.wide : part.narrow) += count;
      (computes_in_fp32(p) ? all.wide : all.narrow) += count;
    }
  }
  Count all, embedding, head;
  std::vector<Count> blocks;

 private:
  Count& of(const Parameter& p, const ModelConfig& model) {
    if (const auto block = block_of(p)) return blocks[*block];
    const bool tied = p.part == Part::kEmbedding && model.tie_word_embeddings;
    return p.part == Part::kEmbedding && !tied ? embedding : head;
  }
};

/// Buckets of gradients (dist::make_buckets), in numbers. Those in fp32 beside
/// bf16 are few and fill none.
struct Buckets {
  Buckets(const ModelConfig& model, const config::DistConfig& dist)
      : waiting(static_cast<std::size_t>(model.num_layers)) {
    const auto full = static_cast<double>(config::bucket_elements(dist));
    const std::vector<Parameter> table = parameter_table(model);
    Count filled;
    for (auto p = table.rbegin(); p != table.rend(); ++p) {
      const auto block = block_of(*p);
      if (p == table.rbegin() || block_of(*std::prev(p)) != block) {
        if (block) waiting[*block] = filled;
      }
      const auto count = static_cast<double>(p->numel());
      if (computes_in_fp32(*p)) {
        filled.wide += count;
        continue;
      }
      filled.narrow += count;
      largest = std::max(largest, filled.narrow);
      if (filled.narrow >= full) filled.narrow = 0;
    }
  }
  double largest = 0;
  /// Gradients whose bucket is not full yet when the backward comes to a block.
  std::vector<Count> waiting;
};

/// One rank's step, moment by moment.
class Step {
 public:
  Step(const ModelConfig& model, const Pass& pass,
       const config::DistConfig* dist, int ranks)
      : model_(model),
        pass_(pass),
        counts_(model),
        w_(model),
        chunks_(model, pass.machine, pass.compute),
        gpu_(pass.machine == Machine::kGpu),
        element_(element_bytes(pass.compute)),
        master_(master_bytes(pass.compute)),
        tokens_(static_cast<double>(pass.tokens)),
        hidden_(tokens_ * w_.h * element_),
        delta_(kept_tensors(model, false, pass.machine, pass.compute)),
        softmax_(kept_tensors(model, true, pass.machine, pass.compute)) {
    if (dist) buckets_.emplace(model, *dist);
    hold_parameters(dist, ranks);
    hold_gradients(dist != nullptr);
  }

  Memory fullest() {
    // What is kept in front of each block, and behind the last one.
    std::vector<double> before{pass_.recompute ? 2 * hidden_ : embedding()};
    for (std::int64_t layer = 0; layer < model_.num_layers; ++layer) {
      const bool last = layer + 1 == model_.num_layers;
      before.push_back(before.back() + (!pass_.recompute
                                            ? kept(layer, Release::kNextNorm)
                                        : last ? 0
                                               : 2 * hidden_));
    }
    loss(before.back());
    double gradients = earlier_ + grown(counts_.head);
    for (std::int64_t layer = model_.num_layers; layer-- > 0;) {
      const auto at = static_cast<std::size_t>(layer);
      block(layer, gradients + waiting(at), before[at]);
      gradients += grown(counts_.blocks[at]);
    }
    consider("the backward of the embedding", gradients, 0,
             2 * hidden_ + w_.vocab * w_.h * element_);
    if (!gpu_) {  // train::HostState: masters and moments, to be written
      consider("the saving of a checkpoint", 0, 0, 1.5 * memory_.optimizer);
      memory_.program += heap_pieces();
    }
    return memory_;
  }

 private:
  void hold_parameters(const config::DistConfig* dist, int ranks) {
    const double own = gpu_ && pass_.compute == Compute::kBF16
                           ? 4 * counts_.all.narrow
                           : 0;  // masters of bf16
    const double share = dist && dist->shard_optimizer ? ranks : 1;
    memory_.weights = counts_.all.bytes(pass_.compute) + own / share;
    memory_.optimizer = 2 * master_ * counts_.all.all() / share;
    if (dist) {
      const double reduced = pass_.compute == Compute::kF64 ? 8
                             : dist->reduce_dtype == "bf16" ? 2
                                                            : 4;
      const double wide = pass_.compute == Compute::kBF16 ? 4 : reduced;
      memory_.buckets = reduced * counts_.all.narrow + wide * counts_.all.wide;
      // Where the others' shards of a bucket are fetched to, and summed.
      if (gpu_ && ranks > 1 && dist->gpu_exchange != "nccl") {
        memory_.buckets += buckets_->largest * reduced * (ranks - 1) / ranks;
      }
    }
    const bool nccl = dist && ranks > 1 && dist->gpu_exchange != "peer";
    memory_.program =
        !gpu_ ? kProgramBytes : kCudaBytes + (nccl ? kNcclBytes : 0);
  }

  /// Sums of earlier passes, which bf16 has beside its gradients in fp32, from
  /// the third pass on; gradients that recordings keep.
  void hold_gradients(bool exchanged) {
    const bool several = pass_.micro_batches > 1;
    const bool narrow = pass_.compute == Compute::kBF16;
    if (several) {
      const double sum = narrow && pass_.micro_batches == 2 ? 2 : master_;
      earlier_ = sum * counts_.all.narrow + master_ * counts_.all.wide;
    }
    if (pass_.recorded) earlier_ += counts_.all.bytes(pass_.compute);
    // Those of a single pass go into their bucket when it is full, and those of
    // later ones are added in place, but bf16's.
    grows_ = !pass_.recorded && (several ? narrow : !exchanged);
    waits_ = exchanged && !several;
  }

  double waiting(std::size_t block) const {
    return waits_ ? buckets_->waiting[block].bytes(pass_.compute) : 0;
  }

  double grown(const Count& part) const {
    return grows_ ? part.bytes(pass_.compute) : 0;
  }

  /// What glibc's heap holds between tensors, by the runs of docs/memory.md:
  /// more where lives of several lengths mix.
  double heap_pieces() const {
    if (hidden_ >= kOutsideHeap) return 0;
    const bool several = pass_.micro_batches > 1;
    if (pass_.recompute) {
      return (several ? 1.5 : 1) * (memory_.activations + memory_.temporaries);
    }
    const double blocks = several ? 2 : model_.softmax_layers() > 0 ? 1 : 0.65;
    return blocks * kept(0, Release::kNextNorm);
  }

  /// Bytes that a block still keeps when the backward comes to `from`.
  double kept(std::int64_t layer, Release from) const {
    double sum = 0;
    for (const KeptTensor& t : model_.is_softmax(layer) ? softmax_ : delta_) {
      if (t.release < from) continue;
      sum += t.token_bytes * tokens_ +
             t.document_bytes * static_cast<double>(pass_.documents);
    }
    return sum;
  }

  /// The stream in front of the first block, as its norm keeps it.
  double embedding() const { return (gpu_ ? 1 : 2) * hidden_; }

  void consider(std::string moment, double gradients, double activations,
                double temporaries) {
    Memory now = memory_;
    now.moment = std::move(moment);
    now.gradients = gradients;
    now.activations = activations;
    now.temporaries = temporaries;
    if (gpu_) {
      now.temporaries += (pass_.recorded ? 4 : 2) * kMatrixWorkspace;
      now.activations += 16 * tokens_;  // ids and labels
    }
    if (now.total() > memory_.total()) memory_ = now;
  }

  void loss(double activations) {
    const double gradients =
        hidden_ + w_.vocab * w_.h * (gpu_ ? master_ : element_);
    const double rows = std::min(
        tokens_, std::max(1.0, (gpu_ ? kGpuLogits : kLogits) / w_.vocab));
    // LibTorch's log-softmax on a CPU is a second tensor.
    const double logits = rows * w_.vocab * element_ * (gpu_ ? 1 : 2);
    consider("the loss", earlier_, activations, hidden_ + gradients + logits);
    consider("the backward of the loss", earlier_, activations, 2 * gradients);
  }

  void block(std::int64_t layer, double gradients, double before) {
    // A block that is formed again has outputs, and gradients of both.
    const double again = pass_.recompute ? 3 * hidden_ : 0;
    const auto& matrices = counts_.blocks[static_cast<std::size_t>(layer)];
    const double mlp_weights = 3 * w_.h * w_.i * element_;
    const std::string whose = concat("the backward of layer ", layer);
    consider(whose + "'s MLP", gradients, before + kept(layer, Release::kMlp),
             again +
                 tokens_ * element_ *
                     (gpu_ ? 2 * w_.h + 4 * w_.i : w_.h + 2 * w_.i) +
                 mlp_weights);
    const bool softmax = model_.is_softmax(layer);
    consider(concat(whose, softmax ? "'s softmax" : "'s delta rule"), gradients,
             before + kept(layer, Release::kRecurrence),
             again + hidden_ +
                 (softmax ? softmax_backward() : delta_backward()) +
                 matrices.bytes(pass_.compute));
  }

  double delta_backward() const {
    const double wide = w_.hv * (model_.layer == config::LayerKind::kKda ? w_.k
                                 : model_.layer == config::LayerKind::kGdn ? 1
                                                                           : 0);
    double width = 2 * w_.kd + 2 * w_.vd;
    if (model_.output_gate()) width += w_.vd;
    if (model_.preconditioner.enabled) width += w_.hv * w_.k;
    double bytes = tokens_ * (width * element_ + (w_.hv + wide) * master_);
    if (gpu_) {
      bytes += chunks_.backward_bytes() *
               (tokens_ / kChunkTokens + static_cast<double>(pass_.documents));
    }
    return bytes;
  }

  double softmax_backward() const {
    const double width = w_.heads * w_.head_dim;
    double bytes = 4 * tokens_ * width * element_;
    if (gpu_) {
      const double document =
          tokens_ /
          static_cast<double>(std::max<std::int64_t>(pass_.documents, 1));
      bytes += std::max(1.0, kMultiprocessors / w_.heads) * document * width *
               master_;
    }
    return bytes;
  }

  const ModelConfig& model_;
  const Pass& pass_;
  ModelCounts counts_;
  Widths w_;
  DeltaRuleChunks chunks_;
  bool gpu_;
  double element_;
  double master_;
  double tokens_;
  double hidden_;  // bytes of [T, h]
  std::vector<KeptTensor> delta_, softmax_;
  double earlier_ = 0;  // bytes of gradients that a pass finds
  bool grows_ = true;   // and adds its own to
  bool waits_ = false;  // or gathers until a bucket is full
  std::optional<Buckets> buckets_;
  Memory memory_;
};

}  // namespace

Pass pass_of(const config::Config& config, Machine machine, Compute compute,
             int ranks) {
  Pass pass;
  pass.machine = machine;
  pass.compute = compute;
  pass.tokens = config.training.micro_batch * config.data.sequence_length;
  pass.documents =
      div_up(kDocumentsInContext * pass.tokens,
             std::max<std::int64_t>(config.data.context_length, 1));
  pass.micro_batches = config.training.global_batch /
                       config.training.micro_batch / std::max(ranks, 1);
  pass.recompute = config.training.recompute;
  if (machine == Machine::kGpu) {
    // train::filled_up
    pass.documents = static_cast<std::int64_t>(
        std::bit_ceil(static_cast<std::uint64_t>(pass.documents)));
    pass.recorded = ranks == 0 && config.training.cuda_graph == "on";
  }
  return pass;
}

Memory estimate_memory(const ModelConfig& model, const Pass& pass) {
  return Step(model, pass, nullptr, 0).fullest();
}

Memory estimate_rank_memory(const ModelConfig& model,
                            const config::DistConfig& dist, const Pass& pass,
                            int ranks) {
  return Step(model, pass, &dist, ranks).fullest();
}

std::string memory_advice(const config::TrainingConfig& training) {
  return concat(
      "lower ",
      training.micro_batch > 1 ? "training.micro_batch"
                               : "data.sequence_length",
      training.recompute ? "" : ", or set training.recompute to true");
}

}  // namespace osdn::arch
