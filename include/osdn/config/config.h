#pragma once
// The resolved configuration of a run: plain structs, one per section of the
// JSON file. Defaults are written here and nowhere else. reader.h fills them,
// validate.h checks them. Keys of the file have the names of the members.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace osdn::config {

enum class LayerKind {
  kDeltaNet,     // "deltanet"
  kGdn,          // "gdn"
  kKda,          // "kda"
  kTransformer,  // "transformer": softmax attention everywhere
};
enum class Retention {  // of the preconditioner
  kNone,                // "none": r = 1
  kDataDependent,       // "data_dependent": APF with its own gate
  kTied,                // "tied": r = alpha, GDN only
  kConstant,            // "constant": r = retention_value, for imported models
  kPerHead,             // "per_head": learned, one a head, for imported models
};
enum class KeyNorm { kFloor, kOff, kAdd };  // "floor" "off" "add"
enum class QkActivation { kSilu, kRelu, kElu, kIdentity };
enum class QkNorm { kL2, kSum };

/// model.preconditioner: the online-scaled diagonal d (OSDN), layers.md 6.
/// `preset` fills every key that the file does not name.
struct PreconditionerConfig {
  bool enabled = false;          ///< true as soon as the section is present
  std::string preset = "paper";  ///< "paper" or "published-runs"
  double eta = 0.003;
  double d_min = 0.5;
  double d_max = 2.0;
  bool beta_aware = true;
  KeyNorm norm = KeyNorm::kFloor;
  double d0_init = 1.0;
  bool detach = false;  ///< stop the gradient through d
  Retention retention = Retention::kNone;
  double retention_bias = 6.9;     ///< b_r at the start; r = sigmoid(b_r)
  double retention_value = 0.999;  ///< r of a constant retention
};

/// model.softmax: causal softmax attention in the form of Llama, with rotary
/// positions and grouped heads. Every layer of a transformer has it; in other
/// models, a hybrid, the layers that are listed have it in place of the delta
/// rule.
struct SoftmaxConfig {
  std::vector<std::int64_t> layers;  ///< from 0, rising; not for a transformer
  std::optional<std::int64_t> num_heads;     ///< hidden_size / 64
  std::optional<std::int64_t> num_kv_heads;  ///< = num_heads
  std::optional<std::int64_t> head_dim;      ///< = hidden_size / num_heads
  double rope_theta = 10000.0;
};

/// model.token_ids: the special tokens' numbers that stand in exchanged files,
/// -1 for none. What is tokenized and packed has the tokenizer's own.
struct TokenIds {
  std::int64_t bos = 1;
  std::int64_t eos = 2;
  std::int64_t pad = -1;
};

/// model: layers.md 1 to 6 and 8.
struct ModelConfig {
  LayerKind layer = LayerKind::kDeltaNet;
  std::int64_t vocab_size = 32000;
  std::int64_t hidden_size = 1024;
  std::int64_t num_layers = 24;
  std::int64_t num_heads = 8;
  std::optional<std::int64_t> num_v_heads;        ///< GDN, KDA; = num_heads
  std::optional<std::int64_t> head_dim;           ///< GDN 256, KDA 128
  double expand_k = 1.0;                          ///< DeltaNet
  std::optional<double> expand_v;                 ///< DeltaNet 1, GDN 2, KDA 1
  std::optional<std::int64_t> intermediate_size;  ///< else from hidden_ratio
  double hidden_ratio = 4.0;
  std::int64_t conv_size = 4;
  bool use_short_conv = true;
  bool use_beta = true;          ///< DeltaNet
  std::optional<bool> use_gate;  ///< DeltaNet false, GDN true
  bool allow_neg_eigval = false;
  QkActivation qk_activation = QkActivation::kSilu;  ///< DeltaNet
  QkNorm qk_norm = QkNorm::kL2;                      ///< DeltaNet
  bool safe_gate = false;                            ///< KDA
  std::optional<double> lower_bound;                 ///< KDA
  double norm_eps = 1e-6;
  double initializer_range = 0.02;
  bool tie_word_embeddings = false;
  PreconditionerConfig preconditioner;
  SoftmaxConfig softmax;
  TokenIds token_ids;

  bool is_transformer() const { return layer == LayerKind::kTransformer; }
  bool is_softmax(std::int64_t layer_index) const;
  std::int64_t softmax_layers() const;  ///< how many there are

  // Derived sizes (layers.md 3 to 5); valid once validated. The first group is
  // of the delta-rule layers, which a transformer lacks.
  std::int64_t value_heads() const;  ///< HV
  std::int64_t key_width() const;    ///< K, per head
  std::int64_t value_width() const;  ///< V, per head
  bool output_gate() const;          ///< use_gate with its layer's default
  double expand_v_or_default() const;

  std::int64_t softmax_heads() const;
  std::int64_t softmax_kv_heads() const;
  std::int64_t softmax_head_dim() const;

  std::int64_t mlp_width() const;  ///< i
};

/// data: what is read and how it is packed.
struct DataConfig {
  std::vector<std::string> train;  ///< shards, or folders of shards
  std::vector<std::string> validation;
  std::string tokenizer;  ///< .model file, checked by hash; optional
  bool verify = true;     ///< every byte, before the first step
  std::int64_t context_length = 4096;    ///< documents are split here
  std::int64_t sequence_length = 65536;  ///< tokens of one packed row
  std::string packing = "documents";     ///< "documents" or "stream"
  bool shuffle = true;
  bool mask_document_end = false;  ///< no label across a document's end
  std::int64_t epochs = 0;         ///< 0: repeat for ever
  std::int64_t prefetch_steps = 2;
};

/// optimizer: AdamW.
struct OptimizerConfig {
  double lr = 1e-3;  ///< peak
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-15;
  double weight_decay = 0.1;
  bool decay_exempt = false;   ///< layers.md 1
  double max_grad_norm = 1.0;  ///< 0: no clip
};

/// schedule: the learning rate as a pure function of the step.
struct ScheduleConfig {
  std::string kind = "cosine";       ///< "cosine", "linear", "wsd", "constant"
  std::int64_t total_steps = 20480;  ///< its length; not where training stops
  std::int64_t warmup_steps = 1024;
  std::int64_t decay_steps = 0;  ///< wsd: length of the final decay
  double min_lr_ratio = 0.1;
};

/// training: the loop.
struct TrainingConfig {
  std::int64_t steps = 20480;     ///< where training stops
  std::int64_t global_batch = 8;  ///< rows a step
  std::int64_t micro_batch = 1;   ///< rows a forward pass
  std::uint64_t seed = 42;
  std::string device = "auto";      ///< "auto", "cpu", "cuda"
  std::string dtype = "auto";       ///< compute: "auto", "fp32", "fp64", "bf16"
  bool recompute = false;           ///< form activations again in the backward
  std::string cuda_graph = "auto";  ///< record a step: "auto", "on", "off"
  std::int64_t threads = 0;         ///< CPU threads; 0: all cores
  std::int64_t validate_every = 1000;  ///< steps; 0: never
  std::int64_t validation_tokens = 0;  ///< 0: the whole set
  std::string non_finite = "skip";     ///< "skip" or "stop"
  std::int64_t max_skips = 10;         ///< skipped in a row before a stop
};

/// checkpoint
struct CheckpointConfig {
  std::int64_t every = 1000;  ///< steps; 0: only at the end
  std::int64_t keep_last = 3;
  std::int64_t keep_every = 0;  ///< steps kept for good; 0: none
};

/// dist: several ranks of one run, over MPI and NCCL.
struct DistConfig {
  double timeout_s = 60;  ///< how long a rank waits for the others
  /// Gradients are summed over the ranks in: "fp32", "bf16".
  std::string reduce_dtype = "fp32";
  bool shard_optimizer = true;  ///< each rank has a part of the moments
  double bucket_mb = 200;       ///< gradients sent at a time
  /// How GPUs exchange: "auto", "peer" (copies between the memories of one
  /// host's GPUs), "nccl".
  std::string gpu_exchange = "auto";
  bool share_gpus = false;  ///< several ranks may have one GPU
};

/// logging
struct LoggingConfig {
  std::int64_t every = 1;      ///< steps between progress lines
  std::string level = "info";  ///< "debug", "info", "warn", "error"
};

struct Config {
  std::string run_dir;  ///< where everything of a run goes
  ModelConfig model;
  DataConfig data;
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  TrainingConfig training;
  CheckpointConfig checkpoint;
  DistConfig dist;
  LoggingConfig logging;
};

}  // namespace osdn::config
