#include "osdn/checkpoint/checkpoint_store.h"

#include <fcntl.h>
#include <stdio.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <string_view>
#include <utility>

#include "folder_names.h"
#include "osdn/checkpoint/finite_check.h"
#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "osdn/core/hash.h"
#include "osdn/core/utc_time.h"
#include "osdn/core/version.h"

namespace osdn::checkpoint {

namespace {

namespace fs = std::filesystem;

// What makes no sense is the caller's mistake, not the disk's.
void check_parts(std::int64_t step, const CheckpointParts& parts) {
  if (step < 0) {
    throw Error(concat("a checkpoint of step ", step, ": steps count from 0"));
  }
  std::set<std::string_view> names = {kManifestName};
  const auto check_name = [&](const std::string& name) {
    if (name.empty() || fs::path(name).filename() != name || name == "." ||
        name == "..") {
      throw Error(concat("a checkpoint's file \"", name,
                         "\": expected a name without a folder"));
    }
    if (!names.insert(name).second) {
      throw Error(concat("a checkpoint's file \"", name, "\" is there twice"));
    }
  };
  for (const TensorPart& part : parts.tensors) {
    check_name(part.file);
  }
  for (const TextPart& part : parts.texts) {
    check_name(part.file);
  }
}

}  // namespace

std::string find_fault(const CheckpointParts& parts, WriteProgress* progress) {
  if (!parts.known_bad.empty()) {
    return parts.known_bad;
  }
  for (const TensorPart& part : parts.tensors) {
    if (progress != nullptr) progress->at("looking for NaN in", part.file);
    for (const TensorView& tensor : part.tensors) {
      if (const auto bad = find_non_finite({&tensor, 1})) {
        return concat(part.file, ": tensor ", bad->tensor, " has ", bad->value,
                      " at element ", bad->index);
      }
      if (progress != nullptr) progress->moved();
    }
  }
  return {};
}

namespace {

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    throw Error(
        concat(folder.string(), ": cannot be listed: ", error.message()),
        ExitCode::kBadInput);
  }
  return names;
}

// A checkpoint is renamed before it is deleted: half of one never has its name.
void remove_checkpoint(const fs::path& folder, std::int64_t step) {
  const fs::path doomed = folder / deleted_name(step);
  fs::remove_all(doomed);
  fs::rename(folder / folder_name(step), doomed);
  sync_folder(folder);
  fs::remove_all(doomed);
}

// Puts `fresh` under the name `path`, and what has that name, if anything, out
// of the way.
void put_in_place(const fs::path& fresh, const fs::path& path,
                  std::int64_t step) {
  const fs::path folder = path.parent_path();
  if (fs::exists(path)) {
    // The two swap names in one step where the file system can do that.
    if (::renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, path.c_str(),
                    RENAME_EXCHANGE) == 0) {
      sync_folder(folder);
      fs::remove_all(fresh);
      return;
    }
    if (errno != EINVAL && errno != ENOSYS) {
      throw Error(
          concat(path.string(), ": cannot be replaced: ",
                 std::error_code(errno, std::generic_category()).message()));
    }
    remove_checkpoint(folder, step);
  }
  rename_synced(fresh, path);
}

void check_step(const Checkpoint& checkpoint, std::int64_t step) {
  if (checkpoint.step() != step) {
    throw Error(concat(checkpoint.path.string(), ": its manifest is of step ",
                       checkpoint.step()),
                ExitCode::kBadInput);
  }
}

}  // namespace

Checkpoint open_checkpoint(const fs::path& path) {
  Checkpoint checkpoint{path, read_manifest(path)};
  const std::string damage =
      find_damage(path, checkpoint.manifest, Depth::kChecksums);
  if (!damage.empty()) {
    throw Error(concat(path.string(), ": ", damage), ExitCode::kBadInput);
  }
  return checkpoint;
}

CheckpointStore::CheckpointStore(fs::path folder, Retention retention)
    : folder_(std::move(folder)), retention_(retention) {
  if (retention_.keep_last < 1 || retention_.keep_every < 0) {
    throw Error(concat("checkpoints: keep_last is ", retention_.keep_last,
                       " and keep_every is ", retention_.keep_every,
                       "; expected at least 1 and at least 0"),
                ExitCode::kUsage);
  }
}

fs::path CheckpointStore::path_of(std::int64_t step) const {
  return folder_ / folder_name(step);
}

std::vector<std::int64_t> CheckpointStore::steps() const {
  std::vector<std::int64_t> steps;
  for (const std::string& name : names_in(folder_)) {
    if (const auto step = step_of(name)) {
      steps.push_back(*step);
    }
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

Checkpoint CheckpointStore::open(std::int64_t step) const {
  Checkpoint checkpoint = open_checkpoint(path_of(step));
  check_step(checkpoint, step);
  return checkpoint;
}

LatestCheckpoint CheckpointStore::find_latest() const {
  LatestCheckpoint latest;
  std::vector<std::int64_t> newest_first = steps();
  std::reverse(newest_first.begin(), newest_first.end());
  for (const std::int64_t step : newest_first) {
    try {
      latest.found = open(step);
      break;
    } catch (const Error& error) {
      latest.passed_over.push_back({path_of(step), error.what()});
    }
  }
  return latest;
}

std::vector<ManifestFile> write_parts(const fs::path& folder,
                                      const CheckpointParts& parts,
                                      WriteProgress* progress) {
  std::vector<ManifestFile> files;
  for (const TensorPart& part : parts.tensors) {
    const WrittenFile written = write_safetensors(
        folder / part.file, part.tensors, part.metadata, progress);
    files.push_back({part.file, written.size, written.xxh3});
  }
  for (const TextPart& part : parts.texts) {
    if (progress != nullptr) progress->at("writing", folder / part.file);
    File file = File::create(folder / part.file);
    file.write(part.text);
    file.sync();
    file.close();
    files.push_back({part.file, part.text.size(), xxh3_64(part.text)});
  }
  return files;
}

SaveResult CheckpointStore::save(std::int64_t step,
                                 const CheckpointParts& parts,
                                 WriteProgress* progress) {
  check_parts(step, parts);
  SaveResult result;
  result.problem = find_fault(parts, progress);
  if (!result.problem.empty()) {
    result.status = SaveStatus::kRefused;
    return result;
  }
  try {
    if (progress != nullptr) progress->at("making a folder in", folder_);
    const fs::path fresh = begin(step);
    std::vector<ManifestFile> files = write_parts(fresh, parts, progress);
    if (progress != nullptr) progress->at("giving its name to", fresh);
    return commit(step, std::move(files));
  } catch (const std::exception& error) {
    // Not only Error: the file system's exceptions and a lack of memory, too,
    // must leave training running.
    result.problem = error.what();
    discard(step);
    return result;
  }
}

fs::path CheckpointStore::begin(std::int64_t step) {
  fs::create_directories(folder_);
  // A full disk is often full of what earlier saves left behind.
  remove_leavings();
  const fs::path fresh = folder_ / temporary_name(step);
  fs::create_directory(fresh);
  return fresh;
}

SaveResult CheckpointStore::commit(std::int64_t step,
                                   std::vector<ManifestFile> files) {
  SaveResult result;
  const fs::path fresh = folder_ / temporary_name(step);
  try {
    const Manifest manifest{step, osdn::commit(), utc_now(), std::move(files)};
    write_manifest(fresh, manifest);
    sync_folder(fresh);
    const std::string damage = find_damage(fresh, manifest, Depth::kSizes);
    if (!damage.empty()) {
      throw Error(concat(fresh.string(), ": ", damage));
    }
    put_in_place(fresh, path_of(step), step);
  } catch (const std::exception& error) {
    result.problem = error.what();
    discard(step);
    return result;
  }
  result.status = SaveStatus::kSaved;
  result.path = path_of(step);
  tidy_up(step, result);
  return result;
}

void CheckpointStore::discard(std::int64_t step) {
  std::error_code ignored;
  fs::remove_all(folder_ / temporary_name(step), ignored);
}

void CheckpointStore::tidy_up(std::int64_t saved_step, SaveResult& result) {
  try {
    result.set_aside = set_aside_after(saved_step);
    rotate(saved_step, result);
    remove_leavings();
  } catch (const std::exception& error) {
    result.problem = error.what();
  }
}

void CheckpointStore::rotate(std::int64_t saved_step, SaveResult& result) {
  std::vector<std::int64_t> candidates = steps();
  std::int64_t kept = 0;
  // Newest first. The one just saved is sound; one that is visibly damaged does
  // not use up a place of keep_last, or it would push out a sound one.
  for (auto step = candidates.rbegin(); step != candidates.rend(); ++step) {
    const bool for_good =
        retention_.keep_every > 0 && *step % retention_.keep_every == 0;
    if (kept < retention_.keep_last) {
      bool sound = *step == saved_step;
      try {
        sound =
            sound || find_damage(path_of(*step), read_manifest(path_of(*step)),
                                 Depth::kSizes)
                         .empty();
      } catch (const Error&) {
        sound = false;
      }
      kept += sound ? 1 : 0;
    } else if (!for_good) {
      remove_checkpoint(folder_, *step);
      result.removed.push_back(*step);
    }
  }
}

std::vector<fs::path> CheckpointStore::set_aside_after(std::int64_t step) {
  std::vector<fs::path> moved;
  const fs::path aside = folder_ / "set_aside";
  for (const std::int64_t later : steps()) {
    if (later <= step) {
      continue;
    }
    fs::create_directories(aside);
    const std::string name = concat(folder_name(later), "-", utc_now_in_name());
    fs::path target = aside / name;
    for (int copy = 2; fs::exists(target); ++copy) {
      target = aside / concat(name, "-", copy);
    }
    rename_synced(path_of(later), target);
    moved.push_back(target);
  }
  return moved;
}

void CheckpointStore::remove_leavings() const {
  for (const std::string& name : names_in(folder_)) {
    if (is_leaving(name)) {
      fs::remove_all(folder_ / name);
    }
  }
}

}  // namespace osdn::checkpoint
