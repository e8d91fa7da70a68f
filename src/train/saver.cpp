#include "osdn/train/saver.h"

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "osdn/core/concat.h"

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
                  const checkpoint::CheckpointParts& parts) {
  Share share;
  try {
    share.problem = checkpoint::find_fault(parts);
    if (!share.problem.empty()) {
      share.status = SaveStatus::kRefused;
      return share;
    }
    share.files = checkpoint::write_parts(folder, parts);
    share.status = SaveStatus::kSaved;
  } catch (const std::exception& error) {
    share.problem = error.what();
  }
  return share;
}

}  // namespace

struct Saver::Job {
  Job(std::int64_t step_, HostState state_)
      : step(step_), state(std::move(state_)) {}
  ~Job() {
    if (thread.joinable()) thread.join();
  }

  const std::int64_t step;
  const std::chrono::steady_clock::time_point start =
      std::chrono::steady_clock::now();
  const HostState state;
  checkpoint::CheckpointParts parts;
  std::string folder;   // that all ranks write into
  std::string problem;  // rank 0 could not begin
  SaveResult alone;     // of a single rank
  Share share;
  std::atomic<bool> done{false};
  std::thread thread;
};

Saver::Saver(checkpoint::CheckpointStore& store, dist::World& world)
    : store_(store), world_(world) {}

Saver::~Saver() = default;

void Saver::begin(std::int64_t step, HostState state,
                  std::vector<checkpoint::TextPart> texts) {
  job_ = std::make_unique<Job>(step, std::move(state));
  Job& job = *job_;
  job.parts.tensors = job.state.parts();
  if (world_.place().first()) {
    job.parts.texts = std::move(texts);
    for (checkpoint::TextPart& index : job.state.indices()) {
      job.parts.texts.push_back(std::move(index));
    }
  }
  if (world_.place().alone()) {
    job.thread = std::thread([&job, &store = store_] {
      job.alone = store.save(job.step, job.parts);
      job.done = true;
    });
    return;
  }
  std::string begun;
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
  job.thread = std::thread([&job] {
    job.share = write_share(job.folder, job.parts);
    job.done = true;
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
  if (world_.place().alone()) {
    job_->thread.join();
    return settle();
  }
  for (;;) {
    if (auto outcome = poll()) return outcome;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

SaveOutcome Saver::settle() {
  const std::unique_ptr<Job> job = std::move(job_);
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
