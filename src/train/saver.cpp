#include "osdn/train/saver.h"

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/log.h"

namespace osdn::train {

namespace {

namespace fs = std::filesystem;
using checkpoint::SaveResult;
using checkpoint::SaveStatus;

// What one rank has to say of its share.
struct Share {
  SaveStatus status = SaveStatus::kFailed;
  std::string problem;
  std::vector<checkpoint::ManifestFile> files;
};

std::string to_text(const Share& share) {
  nlohmann::json files = nlohmann::json::array();
  for (const checkpoint::ManifestFile& file : share.files) {
    files.push_back({file.name, file.size, file.xxh3});
  }
  return nlohmann::json{static_cast<int>(share.status), share.problem, files}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Share to_share(const std::string& text) {
  const nlohmann::json root = nlohmann::json::parse(text);
  Share share;
  share.status = static_cast<SaveStatus>(root[0].get<int>());
  share.problem = root[1].get<std::string>();
  for (const nlohmann::json& file : root[2]) {
    share.files.push_back({file[0].get<std::string>(),
                           file[1].get<std::uint64_t>(),
                           file[2].get<std::uint64_t>()});
  }
  return share;
}

Share write_share(const std::string& folder,
                  const checkpoint::CheckpointParts& parts,
                  checkpoint::WriteProgress& progress) {
  Share share;
  try {
    share.problem = checkpoint::find_fault(parts, &progress);
    if (!share.problem.empty()) {
      share.status = SaveStatus::kRefused;
      return share;
    }
    share.files = checkpoint::write_parts(folder, parts, &progress);
    share.status = SaveStatus::kSaved;
  } catch (const std::exception& error) {
    share.problem = error.what();
  }
  return share;
}

}  // namespace

// The thread holds it, too: one that hangs in a call to the system is left to
// itself.
struct Saver::Job {
  Job(std::int64_t step_, HostState state_)
      : step(step_), state(std::move(state_)) {}

  const std::int64_t step;
  const std::chrono::steady_clock::time_point start =
      std::chrono::steady_clock::now();
  const HostState state;
  checkpoint::CheckpointParts parts;
  std::string folder;   // that all ranks write into
  std::string problem;  // rank 0 could not begin
  SaveResult alone;     // of a single rank
  Share share;
  checkpoint::WriteProgress progress;
  std::atomic<bool> done{false};
  std::thread thread;
};

namespace {

// Says when what is waited for has not moved for long.
class Stall {
 public:
  Stall(const checkpoint::WriteProgress& progress,
        std::chrono::duration<double> patience)
      : progress_(progress), patience_(patience), seen_(progress.now()) {}

  // What it hangs in, once for each time that the patience is over.
  std::optional<std::string> look() {
    const checkpoint::WriteProgress::Now now = progress_.now();
    const auto time = std::chrono::steady_clock::now();
    if (now.count != seen_.count) {
      seen_ = now;
      since_ = time;
    }
    if (time - since_ < patience_) return {};
    since_ = time;
    return concat("has not moved for ", patience_.count(),
                  " s (dist.timeout_s), ", now.at,
                  "; does the disk, or the server behind it, still answer?");
  }

 private:
  const checkpoint::WriteProgress& progress_;
  const std::chrono::duration<double> patience_;
  checkpoint::WriteProgress::Now seen_;
  std::chrono::steady_clock::time_point since_ =
      std::chrono::steady_clock::now();
};

constexpr std::chrono::milliseconds kAlonePause{2};
constexpr std::chrono::milliseconds kPause{20};

}  // namespace

Saver::Saver(checkpoint::CheckpointStore& store, dist::World& world)
    : store_(store), world_(world) {}

Saver::~Saver() {
  if (!job_ || !job_->thread.joinable()) return;
  Stall stall(job_->progress, world_.timeout());
  while (!job_->done) {
    // The others have been told by now why this rank ends.
    if (const auto why = stall.look(); why && !world_.place().alone()) {
      job_->thread.detach();
      return;
    }
    std::this_thread::sleep_for(kAlonePause);
  }
  job_->thread.join();
}

void Saver::begin(std::int64_t step, HostState state,
                  std::vector<checkpoint::TextPart> texts) {
  job_ = std::make_shared<Job>(step, std::move(state));
  Job& job = *job_;
  job.parts.tensors = job.state.parts();
  if (world_.place().first()) {
    job.parts.texts = std::move(texts);
    for (checkpoint::TextPart& index : job.state.indices()) {
      job.parts.texts.push_back(std::move(index));
    }
  }
  if (world_.place().alone()) {
    job.thread = std::thread([self = job_, &store = store_] {
      self->alone = store.save(self->step, self->parts, &self->progress);
      self->done = true;
    });
    return;
  }
  std::string begun;
  world_.working(concat("making a folder in ", store_.folder().string()));
  if (world_.place().first()) {
    try {
      begun = concat("+", store_.begin(step).string());
    } catch (const std::exception& error) {
      begun = concat("-", error.what());
    }
  }
  begun = world_.from_first(begun);
  (begun.front() == '+' ? job.folder : job.problem) = begun.substr(1);
  if (!job.problem.empty()) {
    job.done = true;
    return;
  }
  job.thread = std::thread([self = job_] {
    self->share = write_share(self->folder, self->parts, self->progress);
    self->done = true;
  });
}

std::optional<SaveOutcome> Saver::poll() {
  if (!job_) return {};
  for (const auto& rank : world_.all_numbers({job_->done ? 1.0 : 0.0})) {
    if (rank.front() == 0) return {};
  }
  return settle();
}

std::optional<SaveOutcome> Saver::finish() {
  if (!job_) return {};
  const bool alone = world_.place().alone();
  Stall stall(job_->progress, world_.timeout());
  for (;;) {
    if (auto outcome = poll()) return outcome;
    if (const auto why = job_->done ? std::nullopt : stall.look()) {
      const std::string what =
          concat("the save of step ", job_->step, " ", *why);
      if (!alone) {
        job_->thread.detach();
        throw Error(what);
      }
      log::warn(what);
    }
    std::this_thread::sleep_for(alone ? kAlonePause : kPause);
  }
}

SaveOutcome Saver::settle() {
  const std::shared_ptr<Job> job = std::move(job_);
  if (job->thread.joinable()) job->thread.join();
  SaveOutcome outcome;
  outcome.step = job->step;
  SaveResult& result = outcome.result;
  const bool first = world_.place().first();
  if (world_.place().alone()) {
    result = std::move(job->alone);
  } else if (!job->problem.empty()) {
    result.problem = job->problem;
  } else {
    result.status = SaveStatus::kSaved;
    std::vector<checkpoint::ManifestFile> files;
    const std::vector<std::string> texts = world_.all(to_text(job->share));
    for (std::size_t rank = 0; rank < texts.size(); ++rank) {
      Share share = to_share(texts[rank]);
      files.insert(files.end(), share.files.begin(), share.files.end());
      if (share.status == SaveStatus::kSaved ||
          result.status == SaveStatus::kRefused) {
        continue;
      }
      if (result.status == SaveStatus::kSaved ||
          share.status == SaveStatus::kRefused) {
        result.status = share.status;
        result.problem = concat("rank ", rank, ": ", share.problem);
      }
    }
    world_.working(
        concat("giving its name to ", store_.path_of(job->step).string()));
    if (result.status != SaveStatus::kSaved) {
      if (first) store_.discard(job->step);
    } else {
      if (first) result = store_.commit(job->step, std::move(files));
      // What became of it, in one text: status, then what is wrong.
      const std::string said = world_.from_first(
          concat(static_cast<int>(result.status), result.problem));
      result.status = static_cast<SaveStatus>(said.front() - '0');
      result.problem = said.substr(1);
      result.path = store_.path_of(job->step);
    }
  }
  outcome.seconds = std::chrono::duration<double>(
                        std::chrono::steady_clock::now() - job->start)
                        .count();
  return outcome;
}

}  // namespace osdn::train
