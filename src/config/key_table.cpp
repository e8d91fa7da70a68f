#include "key_table.h"

#include "key_row.h"

namespace osdn::config {

namespace {

// Upper limits keep every count and product of sizes within 63 bits.
constexpr double kMostTokens = 1 << 24;
constexpr double kMostSteps = 1e9;

bool is_deltanet(const Config& config) {
  return config.model.layer == LayerKind::kDeltaNet;
}
bool is_kda(const Config& config) {
  return config.model.layer == LayerKind::kKda;
}
bool has_head_dim(const Config& config) {
  return !is_deltanet(config);
}

constexpr std::string_view kOnlyDeltaNet = "model.layer is \"deltanet\"";
constexpr std::string_view kOnlyHeadDim = "model.layer is \"gdn\" or \"kda\"";
constexpr std::string_view kOnlyKda = "model.layer is \"kda\"";

void add_model(std::vector<Key>& keys) {
  const std::string deltanet(kOnlyDeltaNet);
  const std::string head_dim(kOnlyHeadDim);
  const std::string kda(kOnlyKda);
  keys.push_back(
      Row("model.layer", OSDN_MEMBER(model.layer),
          "The attention layer: DeltaNet, Gated DeltaNet or Kimi "
          "Delta Attention.")
          .choices({"deltanet", "gdn", "kda"})
          .also({"type", "model_type", "architecture", "attention"}));
  keys.push_back(Row("model.vocab_size", OSDN_MEMBER(model.vocab_size),
                     "Rows of the embedding; at least the tokenizer's size.")
                     .from(1)
                     .to(1 << 30));
  keys.push_back(Row("model.hidden_size", OSDN_MEMBER(model.hidden_size),
                     "Width h of the residual stream.")
                     .from(1)
                     .to(1 << 20)
                     .also({"d_model", "dim", "n_embd", "embed_dim"}));
  keys.push_back(
      Row("model.num_layers", OSDN_MEMBER(model.num_layers), "Blocks L.")
          .from(1)
          .to(1024)
          .also({"num_hidden_layers", "n_layers", "depth"}));
  keys.push_back(Row("model.num_heads", OSDN_MEMBER(model.num_heads),
                     "Query and key heads H.")
                     .from(1)
                     .to(4096)
                     .also({"n_heads", "num_attention_heads"}));
  keys.push_back(
      Row("model.num_v_heads", OSDN_MEMBER(model.num_v_heads),
          "Value heads HV, a multiple of num_heads; neighbours share "
          "a key head.")
          .from(1)
          .to(4096)
          .default_is("num_heads")
          .only(head_dim, has_head_dim)
          .resolves([](const Config& config) -> Value {
            return config.model.value_heads();
          })
          .also({"num_kv_heads", "num_value_heads"}));
  keys.push_back(Row("model.head_dim", OSDN_MEMBER(model.head_dim),
                     "Width K of a key head.")
                     .from(1)
                     .to(4096)
                     .default_is("256 for gdn, 128 for kda")
                     .only(head_dim, has_head_dim)
                     .resolves([](const Config& config) -> Value {
                       return config.model.key_width();
                     }));
  keys.push_back(Row("model.expand_k", OSDN_MEMBER(model.expand_k),
                     "All key heads together are hidden_size times this wide.")
                     .above(0)
                     .to(16)
                     .only(deltanet, is_deltanet));
  keys.push_back(Row("model.expand_v", OSDN_MEMBER(model.expand_v),
                     "DeltaNet: all value heads together are hidden_size times "
                     "this wide. Others: a value head is head_dim times this "
                     "wide.")
                     .above(0)
                     .to(16)
                     .default_is("1 for deltanet, 2 for gdn, 1 for kda")
                     .resolves([](const Config& config) -> Value {
                       return config.model.expand_v_or_default();
                     }));
  keys.push_back(Row("model.intermediate_size",
                     OSDN_MEMBER(model.intermediate_size),
                     "Width of the SwiGLU.")
                     .from(1)
                     .to(1 << 24)
                     .default_is("from hidden_ratio")
                     .also({"ffn_dim", "d_ff", "mlp_dim", "ffn_hidden_size"}));
  keys.push_back(
      Row("model.hidden_ratio", OSDN_MEMBER(model.hidden_ratio),
          "The SwiGLU is 2/3 hidden_size times this wide, rounded up "
          "to a multiple of 256.")
          .above(0)
          .to(64)
          .only("model.intermediate_size is not given",
                [](const Config& config) {
                  return !config.model.intermediate_size.has_value();
                }));
  keys.push_back(Row("model.use_short_conv", OSDN_MEMBER(model.use_short_conv),
                     "Causal convolutions after the q, k and v projections."));
  keys.push_back(Row("model.conv_size", OSDN_MEMBER(model.conv_size),
                     "Taps of those convolutions.")
                     .from(1)
                     .to(64)
                     .only("model.use_short_conv is true",
                           [](const Config& config) {
                             return config.model.use_short_conv;
                           })
                     .also({"d_conv", "kernel_size"}));
  keys.push_back(Row("model.use_beta", OSDN_MEMBER(model.use_beta),
                     "A learned write strength beta; false: beta = 1.")
                     .only(deltanet, is_deltanet));
  keys.push_back(Row("model.use_gate", OSDN_MEMBER(model.use_gate),
                     "A gate on the output norm. KDA always has one.")
                     .default_is("false for deltanet, true for gdn")
                     .only("model.layer is \"deltanet\" or \"gdn\"",
                           [](const Config& config) { return !is_kda(config); })
                     .resolves([](const Config& config) -> Value {
                       return config.model.output_gate();
                     }));
  keys.push_back(Row("model.allow_neg_eigval",
                     OSDN_MEMBER(model.allow_neg_eigval),
                     "Doubles beta, so that it lies in (0, 2)."));
  keys.push_back(Row("model.qk_activation", OSDN_MEMBER(model.qk_activation),
                     "After the convolutions of q and k.")
                     .choices({"silu", "relu", "elu", "identity"})
                     .only(deltanet, is_deltanet));
  keys.push_back(Row("model.qk_norm", OSDN_MEMBER(model.qk_norm),
                     "Per head: unit length, or divided by the sum.")
                     .choices({"l2", "sum"})
                     .only(deltanet, is_deltanet));
  keys.push_back(Row("model.safe_gate", OSDN_MEMBER(model.safe_gate),
                     "Decay bounded closely enough for fast kernels; needs "
                     "lower_bound from -5 to below 0, and A_log starts at 0.")
                     .only(kda, is_kda));
  keys.push_back(Row("model.lower_bound", OSDN_MEMBER(model.lower_bound),
                     "Bound B of the log decay: g = B sigmoid(...) lies in "
                     "(B, 0).")
                     .from(-1000)
                     .below(0)
                     .default_is("none: not bounded")
                     .only(kda, is_kda));
  keys.push_back(Row("model.norm_eps", OSDN_MEMBER(model.norm_eps),
                     "Epsilon of every RMSNorm.")
                     .above(0)
                     .to(1)
                     .also({"rms_norm_eps", "layer_norm_eps", "eps"}));
  keys.push_back(Row("model.initializer_range",
                     OSDN_MEMBER(model.initializer_range),
                     "Standard deviation of initial weights.")
                     .above(0)
                     .to(10)
                     .also({"init_std"}));
  keys.push_back(Row("model.tie_word_embeddings",
                     OSDN_MEMBER(model.tie_word_embeddings),
                     "The head is the embedding."));
}

void add_preconditioner(std::vector<Key>& keys) {
  const std::string by_preset = "by preset";
  const std::string prefix = "model.preconditioner.";
  keys.push_back(Row(prefix + "preset",
                     OSDN_MEMBER(model.preconditioner.preset),
                     "Fills every key of this section that is not given: see "
                     "Presets.")
                     .choices({"paper", "published-runs"}));
  keys.push_back(Row(prefix + "eta", OSDN_MEMBER(model.preconditioner.eta),
                     "Step size of the scale d.")
                     .from(0)
                     .to(1000)
                     .default_is(by_preset)
                     .also({"osgm_eta", "step_size"}));
  keys.push_back(Row(prefix + "d_min", OSDN_MEMBER(model.preconditioner.d_min),
                     "Lower end of the box that d is clipped to.")
                     .from(0)
                     .default_is(by_preset)
                     .also({"osgm_d_min"}));
  keys.push_back(Row(prefix + "d_max", OSDN_MEMBER(model.preconditioner.d_max),
                     "Upper end of the box.")
                     .from(0)
                     .default_is(by_preset)
                     .also({"osgm_d_max"}));
  keys.push_back(
      Row(prefix + "beta_aware", OSDN_MEMBER(model.preconditioner.beta_aware),
          "The step accounts for beta: eta beta (1 - beta s) / n, else "
          "eta (1 - s) / n.")
          .default_is(by_preset)
          .only("beta is learned (model.use_beta is true)",
                [](const Config& config) {
                  return !is_deltanet(config) || config.model.use_beta;
                })
          .also({"osgm_beta_aware"}));
  keys.push_back(Row(prefix + "norm", OSDN_MEMBER(model.preconditioner.norm),
                     "The step's divisor n: max(||k||^2, 1e-6), 1, or "
                     "||k||^2 + 1e-5.")
                     .choices({"floor", "off", "add"})
                     .default_is(by_preset)
                     .also({"osgm_norm", "use_denominator"}));
  keys.push_back(Row(prefix + "d0_init",
                     OSDN_MEMBER(model.preconditioner.d0_init),
                     "What the learned start d0 of each document begins at.")
                     .from(0)
                     .default_is(by_preset)
                     .also({"osgm_d0_init"}));
  keys.push_back(Row(prefix + "detach",
                     OSDN_MEMBER(model.preconditioner.detach),
                     "Stops the gradient through d.")
                     .default_is(by_preset)
                     .also({"osgm_detach"}));
  keys.push_back(Row(prefix + "retention",
                     OSDN_MEMBER(model.preconditioner.retention),
                     "Forgetting of d (APF): none, from the token by a gate of "
                     "its own, or tied to the decay of a GDN layer.")
                     .choices({"none", "data_dependent", "tied"})
                     .also({"osgm_decay_mode", "apf"}));
  keys.push_back(Row(prefix + "retention_bias",
                     OSDN_MEMBER(model.preconditioner.retention_bias),
                     "Bias of that gate at the start: r = sigmoid of it.")
                     .from(-100)
                     .to(100)
                     .only("model.preconditioner.retention is "
                           "\"data_dependent\"",
                           [](const Config& config) {
                             return config.model.preconditioner.retention ==
                                    Retention::kDataDependent;
                           }));
}

void add_data(std::vector<Key>& keys) {
  keys.push_back(Row("data.train", OSDN_MEMBER(data.train),
                     "Token shards, or folders of them, relative to the "
                     "current folder.")
                     .required()
                     .also({"train_files", "train_data", "path"}));
  keys.push_back(Row("data.validation", OSDN_MEMBER(data.validation),
                     "The same for validation.")
                     .also({"val", "valid", "eval"}));
  keys.push_back(Row("data.tokenizer", OSDN_MEMBER(data.tokenizer),
                     "A SentencePiece model that the shards must have been "
                     "made with; empty: not checked."));
  keys.push_back(Row("data.context_length", OSDN_MEMBER(data.context_length),
                     "Longer documents are split here.")
                     .from(1)
                     .to(kMostTokens)
                     .also({"max_length", "context_len", "block_size"}));
  keys.push_back(Row("data.sequence_length", OSDN_MEMBER(data.sequence_length),
                     "Tokens of one packed row.")
                     .from(2)
                     .to(kMostTokens)
                     .also({"seq_len", "seq_length", "row_length"}));
  keys.push_back(Row("data.packing", OSDN_MEMBER(data.packing),
                     "Rows of whole documents, or cut from one stream as the "
                     "published runs.")
                     .choices({"documents", "stream"}));
  keys.push_back(Row("data.shuffle", OSDN_MEMBER(data.shuffle),
                     "A new order for each epoch, from the seed."));
  keys.push_back(Row("data.mask_document_end",
                     OSDN_MEMBER(data.mask_document_end),
                     "No label for the last token of a document."));
  keys.push_back(Row("data.epochs", OSDN_MEMBER(data.epochs),
                     "Passes over the data before training stops; 0: as many "
                     "as the steps need.")
                     .from(0)
                     .to(1e6)
                     .also({"num_epochs"}));
  keys.push_back(Row("data.prefetch_steps", OSDN_MEMBER(data.prefetch_steps),
                     "Steps of data held ready; 0: read when needed.")
                     .from(0)
                     .to(1024)
                     .also({"prefetch", "num_workers"}));
}

void add_optimizer(std::vector<Key>& keys) {
  keys.push_back(
      Row("optimizer.lr", OSDN_MEMBER(optimizer.lr), "Peak learning rate.")
          .above(0)
          .to(10)
          .also({"learning_rate", "max_lr", "peak_lr"}));
  keys.push_back(Row("optimizer.beta1", OSDN_MEMBER(optimizer.beta1),
                     "Memory of the first moment.")
                     .from(0)
                     .below(1)
                     .also({"adam_beta1", "betas"}));
  keys.push_back(Row("optimizer.beta2", OSDN_MEMBER(optimizer.beta2),
                     "Memory of the second moment.")
                     .from(0)
                     .below(1)
                     .also({"adam_beta2"}));
  keys.push_back(Row("optimizer.eps", OSDN_MEMBER(optimizer.eps),
                     "Added to the root of the second moment.")
                     .above(0)
                     .to(1)
                     .also({"epsilon", "adam_epsilon", "adam_eps"}));
  keys.push_back(Row("optimizer.weight_decay",
                     OSDN_MEMBER(optimizer.weight_decay),
                     "Decoupled, times the learning rate.")
                     .from(0)
                     .to(10));
  keys.push_back(Row("optimizer.decay_exempt",
                     OSDN_MEMBER(optimizer.decay_exempt),
                     "Frees norms, gates' own parameters, convolutions, biases "
                     "and the embedding from decay. The preconditioner's "
                     "parameters are always free.")
                     .only("optimizer.weight_decay is above 0",
                           [](const Config& config) {
                             return config.optimizer.weight_decay > 0;
                           })
                     .also({"no_decay"}));
  keys.push_back(
      Row("optimizer.max_grad_norm", OSDN_MEMBER(optimizer.max_grad_norm),
          "Gradients are scaled down to this global norm; 0: never.")
          .from(0)
          .to(1e6)
          .also({"grad_clip", "gradient_clipping", "clip", "max_norm"}));
}

void add_schedule(std::vector<Key>& keys) {
  const auto ends = [](const Config& config) {
    return config.schedule.kind != "constant";
  };
  const std::string not_constant = "schedule.kind is not \"constant\"";
  keys.push_back(Row("schedule.kind", OSDN_MEMBER(schedule.kind),
                     "Shape after the warm-up; wsd is warm-up, stable, decay.")
                     .choices({"cosine", "linear", "wsd", "constant"})
                     .also({"type", "name", "scheduler", "lr_scheduler_type"}));
  keys.push_back(Row("schedule.total_steps", OSDN_MEMBER(schedule.total_steps),
                     "Length of the schedule. Training may stop before it "
                     "(training.steps) or go on at the floor.")
                     .from(1)
                     .to(kMostSteps)
                     .only(not_constant, ends)
                     .also({"steps", "max_steps"}));
  keys.push_back(Row("schedule.warmup_steps",
                     OSDN_MEMBER(schedule.warmup_steps),
                     "Linear rise to the peak.")
                     .from(0)
                     .to(kMostSteps)
                     .also({"warmup", "num_warmup_steps"}));
  keys.push_back(Row("schedule.decay_steps", OSDN_MEMBER(schedule.decay_steps),
                     "Length of the final decay; 0: none.")
                     .from(0)
                     .to(kMostSteps)
                     .only("schedule.kind is \"wsd\"",
                           [](const Config& config) {
                             return config.schedule.kind == "wsd";
                           })
                     .also({"cooldown_steps", "decay"}));
  keys.push_back(Row("schedule.min_lr_ratio",
                     OSDN_MEMBER(schedule.min_lr_ratio),
                     "The floor, as a part of the peak.")
                     .from(0)
                     .to(1)
                     .only(not_constant, ends)
                     .also({"min_lr", "lr_min", "final_lr_ratio"}));
}

void add_training(std::vector<Key>& keys) {
  const auto validates = [](const Config& config) {
    return !config.data.validation.empty();
  };
  keys.push_back(Row("training.steps", OSDN_MEMBER(training.steps),
                     "Where training stops.")
                     .from(1)
                     .to(kMostSteps)
                     .also({"max_steps", "num_steps", "train_steps"}));
  keys.push_back(Row("training.global_batch",
                     OSDN_MEMBER(training.global_batch), "Rows a step.")
                     .from(1)
                     .to(1 << 20)
                     .also({"batch_size", "global_batch_size"}));
  keys.push_back(Row("training.micro_batch", OSDN_MEMBER(training.micro_batch),
                     "Rows a forward pass; divides global_batch.")
                     .from(1)
                     .to(1 << 20)
                     .also({"micro_batch_size", "local_batch_size",
                            "per_device_train_batch_size"}));
  keys.push_back(Row("training.seed", OSDN_MEMBER(training.seed),
                     "Of the initial weights and of the data's order.")
                     .also({"random_seed"}));
  keys.push_back(Row("training.device", OSDN_MEMBER(training.device),
                     "auto takes a GPU when there is one.")
                     .choices({"auto", "cpu", "cuda"}));
  keys.push_back(Row("training.dtype", OSDN_MEMBER(training.dtype),
                     "Precision of the computation; auto is bf16 on a GPU and "
                     "fp32 on a CPU. bf16 needs a GPU, fp64 a CPU.")
                     .choices({"auto", "fp32", "fp64", "bf16"})
                     .also({"precision", "mixed_precision"}));
  keys.push_back(Row("training.threads", OSDN_MEMBER(training.threads),
                     "CPU threads; 0: all cores.")
                     .from(0)
                     .to(4096)
                     .also({"num_threads"}));
  keys.push_back(Row("training.validate_every",
                     OSDN_MEMBER(training.validate_every),
                     "Steps between validations; 0: never.")
                     .from(0)
                     .to(kMostSteps)
                     .default_is("1000, or 0 without data.validation")
                     .only("data.validation is given, or it is 0",
                           [validates](const Config& config) {
                             return validates(config) ||
                                    config.training.validate_every == 0;
                           })
                     .also({"eval_every", "eval_interval", "val_interval"}));
  keys.push_back(
      Row("training.validation_tokens", OSDN_MEMBER(training.validation_tokens),
          "Tokens of a validation; 0: the whole set.")
          .from(0)
          .to(9e18)
          .only("data.validation is given and training.validate_every is "
                "above 0",
                [validates](const Config& config) {
                  return validates(config) &&
                         config.training.validate_every > 0;
                })
          .also({"eval_tokens"}));
  keys.push_back(Row("training.non_finite", OSDN_MEMBER(training.non_finite),
                     "After a loss or gradient that is not finite: skip the "
                     "update, or stop.")
                     .choices({"skip", "stop"})
                     .also({"on_nan", "nan_policy"}));
  keys.push_back(
      Row("training.max_skips", OSDN_MEMBER(training.max_skips),
          "Updates skipped in a row before training stops.")
          .from(1)
          .to(1e6)
          .only("training.non_finite is \"skip\"", [](const Config& config) {
            return config.training.non_finite == "skip";
          }));
}

void add_rest(std::vector<Key>& keys) {
  keys.push_back(Row("checkpoint.every", OSDN_MEMBER(checkpoint.every),
                     "Steps between checkpoints; 0: only at the end.")
                     .from(0)
                     .to(kMostSteps)
                     .also({"save_every", "save_steps", "interval"}));
  keys.push_back(Row("checkpoint.keep_last", OSDN_MEMBER(checkpoint.keep_last),
                     "Newest checkpoints that are kept.")
                     .from(1)
                     .to(1e6)
                     .also({"keep_latest_k", "save_total_limit"}));
  keys.push_back(Row("checkpoint.keep_every",
                     OSDN_MEMBER(checkpoint.keep_every),
                     "Checkpoints at multiples of this many steps are kept for "
                     "good, a multiple of every; 0: none.")
                     .from(0)
                     .to(kMostSteps)
                     .only("checkpoint.every is above 0, or it is 0",
                           [](const Config& config) {
                             return config.checkpoint.every > 0 ||
                                    config.checkpoint.keep_every == 0;
                           }));
  keys.push_back(
      Row("logging.every", OSDN_MEMBER(logging.every),
          "Steps between progress lines; the JSONL log has every "
          "step.")
          .from(1)
          .to(kMostSteps)
          .also({"log_every", "log_freq", "log_interval", "logging_steps"}));
  keys.push_back(Row("logging.level", OSDN_MEMBER(logging.level),
                     "Least important messages that are shown.")
                     .choices({"debug", "info", "warn", "error"})
                     .also({"verbosity"}));
}

std::vector<Key> make_table() {
  std::vector<Key> keys;
  keys.push_back(Row("run_dir", OSDN_MEMBER(run_dir),
                     "Folder of everything that the run writes.")
                     .required()
                     .also({"output_dir", "out_dir", "dump_folder"}));
  add_model(keys);
  add_preconditioner(keys);
  add_data(keys);
  add_optimizer(keys);
  add_schedule(keys);
  add_training(keys);
  add_rest(keys);
  for (Key& key : keys) {
    if (key.section() != "model.preconditioner") {
      continue;
    }
    // The whole section depends on being there.
    key.applies = [inner = key.applies](const Config& config) {
      return config.model.preconditioner.enabled && (!inner || inner(config));
    };
  }
  return keys;
}

}  // namespace

const std::vector<Key>& key_table() {
  static const std::vector<Key> table = make_table();
  return table;
}

const Key* find_key(std::string_view path) {
  for (const Key& key : key_table()) {
    if (key.path == path) {
      return &key;
    }
  }
  return nullptr;
}

const std::vector<Section>& section_table() {
  static const std::vector<Section> table = {
      {"", "The top of the file."},
      {"model", "What is trained."},
      {"model.preconditioner",
       "The online-scaled diagonal d of OSDN. Present, if only as `{}`, it is "
       "switched on; absent, the layer is the plain one."},
      {"data", "What is read and how it is packed into rows."},
      {"optimizer", "AdamW."},
      {"schedule", "The learning rate as a pure function of the step."},
      {"training", "The loop."},
      {"checkpoint", "When to save and what to keep."},
      {"logging", "What is shown."},
  };
  return table;
}

const Section* find_section(std::string_view path) {
  for (const Section& section : section_table()) {
    if (section.path == path) {
      return &section;
    }
  }
  return nullptr;
}

}  // namespace osdn::config
