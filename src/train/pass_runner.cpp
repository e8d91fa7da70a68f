#include "osdn/train/pass_runner.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <bit>
#include <chrono>
#include <map>
#include <optional>
#include <utility>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/log.h"
#include "osdn/report/format.h"
#include "osdn/train/train_step.h"
#include "recorded_pass.h"

namespace osdn::train {
namespace {

using Clock = std::chrono::steady_clock;

/// A host that needs this part of a pass's time to hand it over falls behind
/// where kernels are short. One that is far ahead still shows half: it waits
/// for room in the queue (docs/results/h200.md).
constexpr double kHostBound = 0.6;
/// So many passes in a row; the first ones set libraries up.
constexpr int kHostBoundPasses = 3;
/// A packing pays once it comes again.
constexpr int kTimesBefore = 2;
/// Packings that are looked at, and that are recorded: a recording keeps a
/// model's gradients.
constexpr std::size_t kMostPackings = 64;
constexpr int kMostRecordings = 8;

/// Why passes cannot be recorded; empty: they can.
std::string obstacle(const config::Config& config, at::Device device,
                     bool alone) {
  if (device.is_cpu()) return "on a CPU";
  if (!ops::GpuGraph::possible(device)) {
    return "in this build, which lacks LibTorch's headers for CUDA";
  }
  if (!alone) return "beside other ranks, which are sent gradients meanwhile";
  if (config.model.softmax_layers() > 0) {
    return "of softmax layers, which work document by document";
  }
  return "";
}

}  // namespace

void check_recordable(const config::Config& config, at::Device device,
                      bool alone) {
  const std::string why_not = obstacle(config, device, alone);
  if (config.training.cuda_graph == "on" && !why_not.empty()) {
    throw Error(concat("training.cuda_graph is \"on\", but passes cannot be "
                       "recorded ",
                       why_not, "; use \"auto\" or \"off\""),
                ExitCode::kUsage);
  }
}

data::MicroBatch filled_up(const data::MicroBatch& micro, std::int64_t tokens) {
  data::MicroBatch filled = micro;
  const auto length = static_cast<std::int64_t>(micro.tokens.size());
  if (length < tokens) {
    const auto wanted = static_cast<std::size_t>(tokens);
    filled.tokens.resize(wanted, 0);
    filled.labels.resize(wanted, data::kNoLabel);
    filled.cu_seqlens.push_back(tokens);
  }
  const std::size_t documents = filled.cu_seqlens.size() - 1;
  filled.cu_seqlens.resize(std::bit_ceil(documents) + 1,
                           filled.cu_seqlens.back());
  return filled;
}

at::Tensor plain_pass(const model::LanguageModel& model,
                      const model::Batch& batch, const at::Tensor& labels,
                      const PassOptions& options) {
  const at::Tensor loss = model.loss_sum(batch).div(labels);
  if (options.before_backward) options.before_backward();
  loss.backward();
  return loss.detach();
}

struct PassRunner::State {
  struct Packing {
    int times = 0;
    std::unique_ptr<RecordedPass> recording;
  };
  /// A pass by itself: what the host and, with it, the GPU took.
  struct Timed {
    double host_s;
    c10::Event begun, done;
  };

  State(const model::LanguageModel& model_, const config::Config& config,
        bool alone)
      : model(model_) {
    const std::string& wanted = config.training.cuda_graph;
    check_recordable(config, model.device(), alone);
    always = wanted == "on";
    where_it_pays =
        wanted == "auto" && obstacle(config, model.device(), alone).empty();
    if (always) {
      tokens = config.training.micro_batch * config.data.sequence_length;
    }
  }

  at::Tensor run(const model::Batch& batch, const at::Tensor& labels,
                 const PassOptions& options);
  at::Tensor run_plain(const model::Batch& batch, const at::Tensor& labels,
                       const PassOptions& options);
  void judge_last_pass();
  RecordedPass* recording_for(const model::Batch& batch,
                              const at::Tensor& labels);
  void record(Packing& packing, const model::Batch& batch,
              const at::Tensor& labels);
  void hand_out(const RecordedPass& pass, bool first_of_several) const;

  const model::LanguageModel& model;
  bool always = false;
  bool where_it_pays = false;
  std::int64_t tokens = 0;  // rows are filled up to; 0: as they are
  std::map<std::pair<std::int64_t, std::int64_t>, Packing> packings;
  RecordedPass* latest = nullptr;
  int recordings = 0;
  std::optional<Timed> timed;
  int host_bound = 0;     // passes in a row
  double host_share = 0;  // of the last one
};

void PassRunner::State::judge_last_pass() {
  if (!timed || !timed->done.query()) return;
  const double gpu_s = timed->begun.elapsedTime(timed->done) * 1e-3;
  host_share = timed->host_s / gpu_s;
  host_bound = host_share >= kHostBound ? host_bound + 1 : 0;
  timed.reset();
}

RecordedPass* PassRunner::State::recording_for(const model::Batch& batch,
                                               const at::Tensor& labels) {
  if (!always && !where_it_pays) return nullptr;
  Packing& packing =
      packings[{batch.documents.tokens(), batch.documents.count()}];
  ++packing.times;
  if (packing.recording) return packing.recording.get();
  const bool pays =
      packing.times > kTimesBefore && host_bound >= kHostBoundPasses;
  if ((always || pays) && recordings < kMostRecordings) {
    record(packing, batch, labels);
  } else if (packings.size() > kMostPackings) {
    where_it_pays = false;
    packings.clear();
    if (host_bound >= kHostBoundPasses) {
      log::info(
          "the host needs ", report::format_fixed(100 * host_share, 0),
          " % of a pass's time to hand it to the GPU, and rows differ in "
          "length: data.packing \"stream\" or training.cuda_graph \"on\" would "
          "let passes be recorded");
    }
  }
  return where_it_pays || always ? packing.recording.get() : nullptr;
}

void PassRunner::State::record(Packing& packing, const model::Batch& batch,
                               const at::Tensor& labels) {
  try {
    packing.recording =
        std::make_unique<RecordedPass>(model, batch, labels, latest);
  } catch (const Error& error) {
    if (always) {
      throw Error(
          concat(error.what(), "; training.cuda_graph \"off\" does without"));
    }
    log::warn("passes are not recorded: ", error.what());
    where_it_pays = false;
    return;
  }
  latest = packing.recording.get();
  if (++recordings == 1) {
    log::info("passes are recorded as a CUDA graph",
              always ? ""
                     : concat(": the host needs ",
                              report::format_fixed(100 * host_share, 0),
                              " % of a pass's time to hand it to the GPU"));
  }
}

void PassRunner::State::hand_out(const RecordedPass& pass,
                                 bool first_of_several) const {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < pass.gradients().size(); ++i) {
    const at::Tensor& gradient = pass.gradients()[i];
    if (!gradient.defined()) continue;
    at::Tensor& target = model.parameters()[i].tensor.mutable_grad();
    if (target.defined()) {
      target.add_(gradient);
    } else {
      target = first_of_several ? gradient.clone() : gradient;
    }
  }
}

at::Tensor PassRunner::State::run_plain(const model::Batch& batch,
                                        const at::Tensor& labels,
                                        const PassOptions& options) {
  if (timed) return plain_pass(model, batch, labels, options);
  const auto event = [&] {
    return c10::Event(model.device().type(), c10::EventFlag::BACKEND_DEFAULT);
  };
  const c10::Stream stream = c10::impl::VirtualGuardImpl(model.device().type())
                                 .getStream(model.device());
  timed.emplace(Timed{0, event(), event()});
  timed->begun.record(stream);
  const Clock::time_point start = Clock::now();
  at::Tensor loss = plain_pass(model, batch, labels, options);
  timed->host_s = std::chrono::duration<double>(Clock::now() - start).count();
  timed->done.record(stream);
  return loss;
}

at::Tensor PassRunner::State::run(const model::Batch& batch,
                                  const at::Tensor& labels,
                                  const PassOptions& options) {
  judge_last_pass();
  RecordedPass* recording = recording_for(batch, labels);
  if (!recording) return run_plain(batch, labels, options);
  at::Tensor loss = recording->run(batch, labels);
  hand_out(*recording, options.first_of_several);
  return loss;
}

PassRunner::PassRunner(const model::LanguageModel& model,
                       const config::Config& config, bool alone)
    : state_(std::make_unique<State>(model, config, alone)) {}

PassRunner::~PassRunner() = default;

const model::LanguageModel& PassRunner::model() const {
  return state_->model;
}

double PassRunner::host_share() {
  state_->judge_last_pass();
  return state_->host_share;
}

at::Tensor PassRunner::run(const data::MicroBatch& micro,
                           const at::Tensor& labels,
                           const PassOptions& options) {
  State& s = *state_;
  const at::Device device = s.model.device();
  if (device.is_cpu()) {
    return plain_pass(s.model, to_batch(micro, device), labels, options);
  }
  return s.run(to_batch(filled_up(micro, s.tokens), device), labels, options);
}

}  // namespace osdn::train
