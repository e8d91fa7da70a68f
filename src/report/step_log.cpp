#include "osdn/report/step_log.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/path.h"

namespace osdn::report {

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// Pending records that are still held in memory; a disk that stays full for
// longer is an error.
constexpr std::size_t kMaxPendingBytes = std::size_t{64} << 20;

// nlohmann writes non-finite numbers as null; this reads them back as NaN.
double number(const json& object, const char* key) {
  const json& value = object.at(key);
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN()
                         : value.get<double>();
}

StepRecord parse_record(std::string_view line) {
  const json object = json::parse(line);
  StepRecord record;
  record.step = object.at("step").get<std::int64_t>();
  record.loss = number(object, "loss");
  record.grad_norm = number(object, "grad_norm");
  record.lr = number(object, "lr");
  record.tokens = object.at("tokens").get<std::int64_t>();
  record.tokens_per_s = number(object, "tokens_per_s");
  record.skipped = object.at("skipped").get<bool>();
  record.valid_labels = object.at("valid_labels").get<std::int64_t>();
  record.time = number(object, "time");
  const auto found = object.find("validation");
  if (found != object.end() && found->is_null()) {
    record.validation_owed = true;
  } else if (found != object.end()) {
    record.validation = ValidationRecord{
        number(*found, "loss"), found->at("tokens").get<std::int64_t>(),
        number(*found, "seconds")};
  }
  return record;
}

// Calls visit(line, whole) for each line; whole is false for bytes after the
// last LF.
template <typename Visit>
void for_each_line(std::string_view text, const Visit& visit) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) {
      visit(text, false);
      return;
    }
    visit(text.substr(0, end), true);
    text.remove_prefix(end + 1);
  }
}

struct Sorted {
  std::string kept;   // lines that stay in the log
  std::string aside;  // lines that leave it
};

Sorted sort_lines(std::string_view text, std::int64_t resume_step,
                  StepLogOpening& opening) {
  Sorted sorted;
  std::vector<std::pair<std::int64_t, std::string_view>> kept;
  const auto move_aside = [&](std::string_view line) {
    sorted.aside.append(line).push_back('\n');
  };
  for_each_line(text, [&](std::string_view line, bool) {
    StepRecord record;
    try {
      record = parse_record(line);
    } catch (const json::exception&) {
      ++opening.damaged;
      move_aside(line);
      return;
    }
    while (!kept.empty() && kept.back().first >= record.step) {
      ++opening.rewound;
      move_aside(kept.back().second);
      kept.pop_back();
    }
    if (record.step > resume_step) {
      ++opening.rewound;
      move_aside(line);
    } else {
      kept.emplace_back(record.step, line);
    }
  });
  for (const auto& [step, line] : kept) {
    sorted.kept.append(line).push_back('\n');
    opening.last_step = step;
  }
  if (!kept.empty()) {
    const StepRecord last = parse_record(kept.back().second);
    if (last.validation_owed) {
      opening.owed = last;
    }
  }
  opening.kept = static_cast<std::int64_t>(kept.size());
  return sorted;
}

void append_aside(const std::filesystem::path& path, std::int64_t resume_step,
                  const StepLogOpening& opening, std::string_view lines) {
  File side = File::open_append(path);
  // A kill may have cut this file's own last line short.
  const std::uint64_t size = side.size();
  char last = '\n';
  if (size > 0) {
    File::open_read(path).read_at(size - 1, &last, 1);
  }
  const ordered_json mark = {{"rewound_to", resume_step},
                             {"records", opening.rewound},
                             {"damaged", opening.damaged}};
  side.write(concat(last == '\n' ? "" : "\n", mark.dump(), "\n", lines));
  side.sync();
  sync_folder(path.has_parent_path() ? path.parent_path() : ".");
}

}  // namespace

std::string to_json(const StepRecord& record) {
  ordered_json object = {{"step", record.step},
                         {"loss", record.loss},
                         {"grad_norm", record.grad_norm},
                         {"lr", record.lr},
                         {"tokens", record.tokens},
                         {"tokens_per_s", record.tokens_per_s},
                         {"skipped", record.skipped},
                         {"valid_labels", record.valid_labels},
                         {"time", record.time}};
  if (record.validation.has_value()) {
    object["validation"] = {{"loss", record.validation->loss},
                            {"tokens", record.validation->tokens},
                            {"seconds", record.validation->seconds}};
  } else if (record.validation_owed) {
    object["validation"] = nullptr;
  }
  return object.dump();
}

std::vector<StepRecord> read_step_log(const std::filesystem::path& path) {
  const std::string text = read_file(path);
  std::vector<StepRecord> records;
  std::int64_t line_number = 0;
  for_each_line(text, [&](std::string_view line, bool whole) {
    ++line_number;
    StepRecord record;
    try {
      record = parse_record(line);
    } catch (const json::exception& error) {
      if (!whole) {
        return;
      }
      throw Error(concat(path.string(), ":", line_number,
                         ": this line is not a step record (", error.what(),
                         "); opening the log for a resume moves it aside"),
                  ExitCode::kBadInput);
    }
    while (!records.empty() && records.back().step >= record.step) {
      records.pop_back();
    }
    records.push_back(record);
  });
  return records;
}

std::filesystem::path rewound_path(const std::filesystem::path& log) {
  std::filesystem::path path = log;
  path.replace_extension(concat(".rewound", log.extension().string()));
  return path;
}

StepLog::StepLog(std::filesystem::path path, std::int64_t resume_step) {
  if (is_there(path)) {
    const std::string text = read_file(path);
    const Sorted sorted = sort_lines(text, resume_step, opening_);
    if (!sorted.aside.empty()) {
      append_aside(rewound_path(path), resume_step, opening_, sorted.aside);
    }
    if (sorted.kept != text) {
      write_file_atomic(path, sorted.kept);
    }
  }
  file_ = File::open_append(path);
  size_ = file_.size();
}

StepLog::~StepLog() {
  write_pending();
}

bool StepLog::append(const StepRecord& record) {
  if (opening_.last_step.has_value() && record.step <= *opening_.last_step) {
    throw Error(concat(file_.path().string(), ": step ", record.step,
                       " is logged after step ", *opening_.last_step,
                       "; open the log with the step that the run resumes "
                       "from"));
  }
  opening_.last_step = record.step;
  pending_ += to_json(record) + "\n";
  if (write_pending()) {
    return true;
  }
  if (pending_.size() > kMaxPendingBytes) {
    throw Error(concat(problem_, "; ", pending_.size(),
                       " bytes of records wait to be written, which is more "
                       "than is held in memory"));
  }
  return false;
}

void StepLog::settle(const StepRecord& record) {
  if (!opening_.owed || record.step != opening_.owed->step ||
      record.step != opening_.last_step) {
    throw Error(concat(file_.path().string(), ": step ", record.step,
                       " is not the last one, with its validation owed"));
  }
  const std::filesystem::path path = file_.path();
  std::string text = read_file(path);
  text.pop_back();  // the last line's end
  text.erase(text.rfind('\n') + 1);
  write_file_atomic(path, text + to_json(record) + "\n");
  file_ = File::open_append(path);
  size_ = file_.size();
  opening_.owed.reset();
}

bool StepLog::write_pending() {
  if (pending_.empty()) {
    return true;
  }
  try {
    file_.write(pending_);
  } catch (const Error& error) {
    problem_ = error.what();
    // A part of a record must not stand before the next one.
    try {
      file_.truncate(size_);
    } catch (const Error& second) {
      problem_ += concat("; ", second.what());
    }
    return false;
  }
  size_ += pending_.size();
  pending_.clear();
  problem_.clear();
  return true;
}

bool StepLog::sync() {
  if (!write_pending()) {
    return false;
  }
  try {
    file_.sync();
  } catch (const Error& error) {
    problem_ = error.what();
    return false;
  }
  return true;
}

}  // namespace osdn::report
