#include "key_table.h"

#include "key_row.h"
#include "model_keys.h"
#include "osdn/core/threads.h"

namespace osdn::config {

namespace {

// Upper limits keep every count and product of sizes within 63 bits.
constexpr double kMostTokens = 1 << 24;
constexpr double kMostSteps = 1e9;

void add_data(std::vector<Key>& keys) {
  keys.push_back(Row("data.train", OSDN_MEMBER(data.train),
                     "Token shards, or folders of them, relative to the "
                     "current folder.")
                     .required()
                     .path()
                     .also({"train_files", "train_data", "path"}));
  keys.push_back(Row("data.validation", OSDN_MEMBER(data.validation),
                     "The same for validation.")
                     .path()
                     .also({"val", "valid", "eval"}));
  keys.push_back(Row("data.tokenizer", OSDN_MEMBER(data.tokenizer),
                     "A SentencePiece model that the shards must have been "
                     "made with; empty: not checked.")
                     .path());
  keys.push_back(Row("data.verify", OSDN_MEMBER(data.verify),
                     "Checks every byte of the shards before the first step, "
                     "at the speed of the disk; false where that takes too "
                     "long, with osdn-data verify run once instead."));
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
                     "Rows a forward pass on one rank; times the ranks, it "
                     "divides global_batch.")
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
  keys.push_back(Row("training.recompute", OSDN_MEMBER(training.recompute),
                     "Form each block's activations again in the backward "
                     "instead of keeping them: less memory, about a third "
                     "more time.")
                     .also({"activation_checkpointing", "checkpointing"}));
  keys.push_back(
      Row("training.cuda_graph", OSDN_MEMBER(training.cuda_graph),
          "Record forward and backward on one GPU and start them with one "
          "launch: for steps so small that the host cannot keep up. auto: "
          "where that is so and rows are of one length (packing stream); same "
          "bits as off. on: always, rows filled up to sequence_length with "
          "tokens that do not count.")
          .choices({"auto", "on", "off"})
          .also({"cuda_graphs", "graph", "use_cuda_graph"}));
  keys.push_back(Row("training.threads", OSDN_MEMBER(training.threads),
                     "CPU threads; 0: all cores.")
                     .from(0)
                     .to(kMaxThreads)
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
      Row("dist.timeout_s", OSDN_MEMBER(dist.timeout_s),
          "How long a rank waits for another that does not answer "
          "before all end.")
          .from(1)
          .to(86400)
          .also({"timeout", "nccl_timeout", "init_timeout_seconds"}));
  keys.push_back(Row("dist.reduce_dtype", OSDN_MEMBER(dist.reduce_dtype),
                     "Precision in which gradients are summed over the ranks; "
                     "those of an fp64 run always in fp64.")
                     .choices({"fp32", "bf16"})
                     .also({"reduce_type", "mixed_precision_reduce"}));
  keys.push_back(Row("dist.shard_optimizer", OSDN_MEMBER(dist.shard_optimizer),
                     "Each rank keeps and updates its part of moments and "
                     "master weights only (ZeRO stage 1).")
                     .also({"zero1", "zero", "use_distributed_optimizer"}));
  keys.push_back(Row("dist.bucket_mb", OSDN_MEMBER(dist.bucket_mb),
                     "Gradients that are sent at a time, while the backward "
                     "goes on, in MB of their precision.")
                     .above(0)
                     .to(65536)
                     .also({"bucket_cap_mb", "bucket_size"}));
  keys.push_back(
      Row("dist.gpu_exchange", OSDN_MEMBER(dist.gpu_exchange),
          "How GPUs exchange gradients and weights: peer copies from GPU "
          "memory "
          "to GPU memory, on one host and for up to 16 ranks, and leaves the "
          "multiprocessors to the backward; nccl goes through NCCL; auto is "
          "peer where it works and nccl elsewhere.")
          .choices({"auto", "peer", "nccl"})
          .also({"backend", "dist_backend"}));
  keys.push_back(
      Row("dist.share_gpus", OSDN_MEMBER(dist.share_gpus),
          "Several ranks may have one GPU, to try ranks out where "
          "there are not as many GPUs; NCCL cannot do that. Slower "
          "than one rank.")
          .only("dist.gpu_exchange is not \"nccl\"", [](const Config& config) {
            return config.dist.gpu_exchange != "nccl";
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
  keys.push_back(
      Row("run_dir", OSDN_MEMBER(run_dir),
          "Folder of everything that the run writes; `--run-dir` stands above "
          "it.")
          .required()
          .path()
          .also({"output_dir", "out_dir", "dump_folder"}));
  for (Key& key : model_keys()) {
    keys.push_back(std::move(key));
  }
  add_data(keys);
  add_optimizer(keys);
  add_schedule(keys);
  add_training(keys);
  add_rest(keys);
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
      {"model.softmax",
       "Softmax attention: of all layers of a transformer, or of those that "
       "are listed, which makes a hybrid. Positions are rotary and restart at "
       "every document."},
      {"model.token_ids", "The special tokens' numbers in exchanged files."},
      {"model.preconditioner",
       "The online-scaled diagonal d of OSDN. Present, if only as `{}`, it is "
       "switched on; absent, the layer is the plain one."},
      {"data", "What is read and how it is packed into rows."},
      {"optimizer", "AdamW."},
      {"schedule", "The learning rate as a pure function of the step."},
      {"training", "The loop."},
      {"checkpoint", "When to save and what to keep."},
      {"dist",
       "A run of several ranks, started by mpirun or srun; one rank without "
       "them ignores it."},
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
