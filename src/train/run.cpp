#include "osdn/train/run.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <utility>

#include "failure_record.h"
#include "invocation.h"
#include "osdn/checkpoint/run_dir.h"
#include "osdn/config/reader.h"
#include "osdn/config/validate.h"
#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "osdn/core/log.h"
#include "osdn/core/path.h"
#include "osdn/core/version.h"
#include "osdn/data/inspect.h"
#include "osdn/data/token_dataset.h"
#include "osdn/dist/collectives.h"
#include "osdn/dist/cores.h"
#include "osdn/dist/end_process.h"
#include "osdn/dist/gpu_choice.h"
#include "osdn/model/weights.h"
#include "osdn/ops/gpu.h"
#include "osdn/ops/threads.h"
#include "osdn/report/format.h"
#include "osdn/train/build.h"
#include "osdn/train/compute_choice.h"
#include "osdn/train/device_collectives.h"
#include "osdn/train/pass_runner.h"
#include "osdn/train/resume.h"
#include "osdn/train/resume_rules.h"
#include "osdn/train/trainer.h"
#include "rank_facts.h"

namespace osdn::train {

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> to_paths(const std::vector<std::string>& names) {
  return {names.begin(), names.end()};
}

std::shared_ptr<const data::TokenDataset> open_data(
    const config::Config& config, const std::vector<std::string>& inputs) {
  data::ExpectedData expected;
  expected.vocab_size = static_cast<std::uint64_t>(config.model.vocab_size);
  if (!config.data.tokenizer.empty()) {
    expected.tokenizer_hash = xxh3_128_of_file(config.data.tokenizer);
  }
  return std::make_shared<const data::TokenDataset>(to_paths(inputs), expected);
}

data::PackingOptions packing_options(const config::DataConfig& config) {
  return {data::packing_from_name(config.packing), config.context_length,
          config.sequence_length, config.mask_document_end};
}

data::OrderOptions order_options(const config::Config& config) {
  return {config.data.shuffle, config.training.seed};
}

data::LoaderOptions loader_options(const config::Config& config,
                                   const dist::Place& place) {
  data::LoaderOptions options;
  options.world_size = place.size;
  options.rank = place.rank;
  options.packing = packing_options(config.data);
  options.order = order_options(config);
  options.epochs = config.data.epochs;
  options.global_batch = config.training.global_batch;
  options.micro_batch = config.training.micro_batch;
  options.prefetch_steps = config.data.prefetch_steps;
  return options;
}

// Row by row, whatever the micro-batch: the validation loss is then one number
// to the last bit.
data::ValidationOptions validation_options(const config::Config& config,
                                           const dist::Place& place) {
  data::ValidationOptions options;
  options.world_size = place.size;
  options.rank = place.rank;
  options.packing = packing_options(config.data);
  options.micro_batch = 1;
  options.max_tokens = config.training.validation_tokens;
  return options;
}

// Where a run starts.
struct Start {
  fs::path checkpoint;  // empty: at the beginning
  RunState state;
  bool in_this_run = false;
};

bool lies_in(const fs::path& path, const fs::path& folder) {
  std::error_code ignored;
  return fs::equivalent(fs::weakly_canonical(path).parent_path(), folder,
                        ignored);
}

class Run {
 public:
  explicit Run(const RunRequest& request)
      : request_(request),
        config_(request.config),
        run_dir_(config_.run_dir),
        own_world_(request.world ? nullptr : std::make_unique<dist::World>()),
        world_(request.world ? *request.world : *own_world_),
        stop_(request.stop_after_s, request.signal_in_s),
        store_(run_dir_ / checkpoint::kCheckpointFolder,
               {config_.checkpoint.keep_last, config_.checkpoint.keep_every}) {}

  void go() {
    world_.set_timeout(std::chrono::duration<double>(config_.dist.timeout_s));
    dist::WatchOptions watch;
    watch.on_failure =
        dist::end_process("osdn-train", [this](const std::string& line) {
          if (recording_) record_failure(run_dir_, world_.place().rank, line);
        });
    watch.look = dist::nccl_trouble;
    world_.start_watch(watch);
    world_.run([this] { run_as_rank(); });
  }

 private:
  void run_as_rank() {
    world_.agree([this] { check_request(); });
    choose_place();
    world_.agree([this] { open_all_data(); });
    bool verified = false;
    world_.agree([&] { verified = verify_data(); });
    if (stopped_early(verified)) return;
    if (!world_.place().alone()) {
      check_ranks(world_, rank_facts(), config_.dist.share_gpus);
    }

    std::unique_ptr<checkpoint::RunLock> lock;
    Start start;
    checkpoint::RunDirMode mode{};
    world_.agree([&] {
      if (!world_.place().first()) return;
      lock = std::make_unique<checkpoint::RunLock>(run_dir_);
      start = find_start();
      mode = run_dir_mode(start);
      if (mode != checkpoint::RunDirMode::kOverwrite) {
        checkpoint::check_run_dir(run_dir_, mode);
      }
    });
    follow_start(start);
    log_gpu();
    std::unique_ptr<model::LanguageModel> model;
    world_.agree([&] {
      model =
          std::make_unique<model::LanguageModel>(make_model(config_, compute_));
      if (start.checkpoint.empty()) {
        model->initialise(config_.training.seed);
      } else {
        model::load_weights(*model, start.checkpoint);
      }
    });
    std::unique_ptr<Replica> replica;
    if (world_.transport()) {
      replica = std::make_unique<Replica>(
          *model, config_, world_,
          device_collectives(world_, model->device(), config_.dist));
    }
    optim::AdamW adamw(replica ? replica->optimized()
                               : optimized_tensors(*model, config_.optimizer),
                       config_.optimizer);
    std::unique_ptr<report::StepLog> step_log;
    world_.agree([&] {
      if (!start.checkpoint.empty()) {
        load_moments(start.checkpoint, start.state, adamw);
      }
    });
    world_.agree([&] {
      if (!world_.place().first()) return;
      take_run_dir(mode, start);
      step_log = open_log(start);
    });
    data::Loader loader(train_, loader_options(config_, world_.place()),
                        start.state.next_sample);
    Trainer trainer({.config = config_,
                     .model = *model,
                     .adamw = adamw,
                     .loader = loader,
                     .validation = validation_.get(),
                     .store = store_,
                     .log = step_log.get(),
                     .stop = stop_,
                     .world = world_,
                     .replica = replica.get(),
                     .state = start.state,
                     .resumed = start.in_this_run,
                     .owed = owed_validation(step_log.get()),
                     .observer = request_.observer,
                     .peak_tflops = request_.peak_tflops});
    world_.expect_steps();
    recording_ = true;
    trainer.run();
  }

  void check_request() const {
    if (request_.overwrite && request_.resume == ResumeMode::kAuto) {
      throw Error("--overwrite and --resume auto contradict each other",
                  ExitCode::kUsage);
    }
    config::validate_ranks(config_, world_.place().size);
  }

  // Cores and GPU of this rank.
  void choose_place() {
    const std::int64_t cores = dist::take_cores(world_);
    world_.agree([&] {
      if (config_.training.device != "cpu") dist::take_own_gpu(world_.place());
      compute_ = choose_compute(config_.training, cores);
      check_recordable(config_, compute_.compute.device, !world_.transport());
    });
    ops::set_threads(compute_.threads);
    const int ranks = world_.place().size;
    log::info(version_line("osdn-train"), ", run folder ", run_dir_.string(),
              ", ", compute_.compute.device_name, " ",
              compute_.compute.dtype_name, ", ",
              ranks == 1 ? "" : concat(ranks, " ranks of "), compute_.threads,
              compute_.threads == 1 ? " thread" : " threads");
  }

  // Says so when a stop came before there was anything to save.
  bool stopped_early(bool verified) {
    for (const auto& rank : world_.all_numbers({verified ? 1.0 : 0.0})) {
      if (rank.front() != 0) continue;
      log::info("stopped by ", stop_.stop().value_or("a signal"),
                " before the first step; nothing was changed");
      return true;
    }
    return false;
  }

  RankFacts rank_facts() const {
    RankFacts facts;
    facts.program = program_hash();
    facts.config = config::to_json(config_);
    facts.start = start_text(request_);
    facts.data = fresh_state().data_fingerprint;
    if (validation_data_) {
      facts.validation = to_hex(validation_data_->content_hash());
    }
    facts.device = compute_.compute.device_name;
    facts.dtype = compute_.compute.dtype_name;
    facts.where = concat("cores ", dist::cores_text(dist::usable_cores()));
    if (compute_.compute.device.is_cuda()) {
      facts.gpu_uuid = ops::gpu().uuid;
      facts.where = concat(ops::gpu().name, ", ", facts.where);
    }
    return facts;
  }

  void log_gpu() const {
    if (!compute_.compute.device.is_cuda()) return;
    log::info("GPU: ", ops::gpu().name, ", ",
              report::format_fixed(
                  static_cast<double>(ops::gpu().memory_bytes) / (1 << 30), 1),
              " GiB");
  }

  std::unique_ptr<report::StepLog> open_log(const Start& start) const {
    const fs::path path = run_dir_ / checkpoint::kStepLogName;
    auto log = std::make_unique<report::StepLog>(
        path,
        start.state.step > 0 ? start.state.step : report::StepLog::kFromStart);
    if (log->opening().rewound > 0) {
      log::info("the step log goes back to step ", start.state.step, ": ",
                log->opening().rewound, " records moved to ",
                report::rewound_path(path).filename().string());
    }
    return log;
  }

  // Rank 0 has looked; the others take over what it found.
  void follow_start(Start& start) {
    if (world_.place().alone()) return;
    const std::string found = world_.from_first(
        concat(start.in_this_run ? "1" : "0", start.checkpoint.string()));
    world_.agree([&] {
      if (world_.place().first()) return;
      start.in_this_run = found.front() == '1';
      start.checkpoint = found.substr(1);
      start.state = fresh_state();
      if (start.checkpoint.empty()) return;
      const fs::path file = start.checkpoint / kStateName;
      if (!is_there(file)) {
        throw Error(
            concat(file.string(), " is not there on host ", world_.place().host,
                   "; the run folder has to lie on a file system that "
                   "all hosts share"),
            ExitCode::kBadInput);
      }
      const RunState now = start.state;
      start.state = read_run_state(file);
      take_over(start.state, now);
    });
  }

  static void take_over(RunState& state, const RunState& now) {
    state.device = now.device;
    state.dtype = now.dtype;
    state.threads = now.threads;
    state.ranks = now.ranks;
  }

  // Rank 0's log has the record; the others need to know its step.
  std::optional<report::StepRecord> owed_validation(
      const report::StepLog* log) {
    std::optional<report::StepRecord> owed;
    if (log) owed = log->opening().owed;
    const std::string step =
        world_.from_first(owed ? std::to_string(owed->step) : "");
    if (!owed && !step.empty()) owed.emplace().step = std::stoll(step);
    return owed;
  }

  void open_all_data() {
    train_ = open_data(config_, config_.data.train);
    log::info("training data: ",
              report::format_si(static_cast<double>(train_->token_count())),
              " tokens in ", train_->document_count(), " documents");
    if (config_.training.validate_every > 0 &&
        !config_.data.validation.empty()) {
      validation_data_ = open_data(config_, config_.data.validation);
      validation_ = std::make_unique<data::ValidationSet>(
          validation_data_, validation_options(config_, world_.place()));
      log::info(
          "validation data: ",
          report::format_si(static_cast<double>(validation_->token_count())),
          " tokens");
    }
  }

  // False when a stop came before the end.
  bool verify_data() const {
    if (!config_.data.verify) {
      return true;
    }
    std::vector<const data::TokenDataset*> datasets = {train_.get()};
    if (validation_data_) {
      datasets.push_back(validation_data_.get());
    }
    return data::verify(datasets, [this] { return stop_.stop().has_value(); });
  }

  RunState fresh_state() const {
    RunState state;
    state.seed = config_.training.seed;
    state.data_fingerprint = data::data_fingerprint(
        *train_, packing_options(config_.data), order_options(config_));
    state.device = compute_.compute.device_name;
    state.dtype = compute_.compute.dtype_name;
    state.threads = compute_.threads;
    state.ranks = world_.place().size;
    return state;
  }

  // --resume PATH: a checkpoint, or a run's folder for its newest sound one.
  fs::path named_checkpoint() const {
    const fs::path folder =
        request_.resume_from / checkpoint::kCheckpointFolder;
    if (!is_folder(folder)) {
      return checkpoint::open_checkpoint(request_.resume_from).path;
    }
    const auto found = find_checkpoint(checkpoint::CheckpointStore(folder));
    if (!found) {
      throw Error(concat(folder.string(), ": holds no checkpoint"),
                  ExitCode::kBadInput);
    }
    return *found;
  }

  // Looks and refuses; changes nothing.
  Start find_start() {
    Start start;
    if (request_.resume == ResumeMode::kAuto) {
      if (const auto found = find_checkpoint(store_)) {
        start.checkpoint = *found;
        start.in_this_run = true;
      }
    } else if (request_.resume == ResumeMode::kFrom) {
      start.checkpoint = named_checkpoint();
      start.in_this_run = lies_in(start.checkpoint, store_.folder());
    }
    start.state = fresh_state();
    if (start.checkpoint.empty()) {
      return start;
    }
    const RunState now = start.state;
    start.state = read_run_state(start.checkpoint / kStateName);
    const ResumeReport report = check_resumable(
        start.checkpoint, read_file(start.checkpoint / checkpoint::kConfigName),
        config::to_json(config_), start.state, now);
    log::info("goes on from ", start.checkpoint.string(), ": step ",
              start.state.step, ", ", start.state.optimizer.updates,
              " updates, ", start.state.skipped, " skipped");
    for (const KeyChange& change : report.changes) {
      log::info("from here on ", change.key, " is ", change.after, ", was ",
                change.before);
    }
    for (const std::string& warning : report.warnings) {
      log::warn(warning);
    }
    take_over(start.state, now);
    return start;
  }

  checkpoint::RunDirMode run_dir_mode(const Start& start) const {
    if (request_.resume == ResumeMode::kAuto || start.in_this_run) {
      return checkpoint::RunDirMode::kResume;
    }
    return request_.overwrite ? checkpoint::RunDirMode::kOverwrite
                              : checkpoint::RunDirMode::kNew;
  }

  void take_run_dir(checkpoint::RunDirMode mode, const Start& start) {
    const checkpoint::RunDirState taken =
        checkpoint::check_run_dir(run_dir_, mode);
    if (taken.moved_to) {
      log::info("the older run was moved to ", taken.moved_to->string());
    }
    if (request_.resume == ResumeMode::kAuto && start.checkpoint.empty()) {
      log::info(taken.holds_run
                    ? "the run has no checkpoint yet and starts again"
                    : "there is no run to go on with; a new one starts");
    }
    if (start.in_this_run) {
      for (const fs::path& path : store_.set_aside_after(start.state.step)) {
        log::info("a later checkpoint was set aside: ", path.string());
      }
    }
    write_file_atomic(run_dir_ / checkpoint::kConfigName,
                      config::to_json(config_));
    record_invocation(run_dir_, request_.command_line, start.state.step,
                      start.checkpoint);
  }

  const RunRequest& request_;
  const config::Config& config_;
  const fs::path run_dir_;
  std::unique_ptr<dist::World> own_world_;
  dist::World& world_;
  ComputeChoice compute_;
  StopRequest stop_;
  std::atomic<bool> recording_{false};  // the folder is this run's
  checkpoint::CheckpointStore store_;
  std::shared_ptr<const data::TokenDataset> train_;
  std::shared_ptr<const data::TokenDataset> validation_data_;
  std::unique_ptr<data::ValidationSet> validation_;
};

}  // namespace

void set_resume(RunRequest& request, const std::string& text) {
  if (text == "never") {
    request.resume = ResumeMode::kNever;
  } else if (text == "auto") {
    request.resume = ResumeMode::kAuto;
  } else {
    request.resume = ResumeMode::kFrom;
    request.resume_from = text;
  }
}

void run(const RunRequest& request) {
  Run(request).go();
}

}  // namespace osdn::train
