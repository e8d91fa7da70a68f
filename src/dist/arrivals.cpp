#include "arrivals.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include "osdn/core/concat.h"
#include "osdn/core/host.h"

namespace osdn::dist {
namespace {

namespace fs = std::filesystem;
using Environment = std::map<std::string, std::string>;

/// At most 15 characters.
constexpr const char* kArrived = "osdn-ranks";

std::string read(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::optional<int> number(std::string_view text) {
  int value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, fault] = std::from_chars(text.data(), end, value);
  return fault == std::errc() && rest == end ? std::optional(value)
                                             : std::nullopt;
}

/// As it was when the process began its program.
Environment environment_of(const fs::path& process) {
  Environment all;
  const std::string text = read(process / "environ");
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\0', begin), text.size());
    const std::string_view one(text.data() + begin, end - begin);
    const std::size_t equals = one.find('=');
    if (equals != std::string_view::npos) {
      all.emplace(one.substr(0, equals), one.substr(equals + 1));
    }
    begin = end + 1;
  }
  return all;
}

std::string value(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

/// What stands behind the name: its state, its parent's number, ...
std::vector<std::string> status_of(const fs::path& process) {
  const std::string text = read(process / "stat");
  const std::size_t name_end = text.rfind(')');
  std::vector<std::string> fields;
  if (name_end == std::string::npos) return fields;
  for (std::size_t begin = name_end + 2; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    fields.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return fields;
}

bool has_arrived(const fs::path& process) {
  std::error_code gone;
  for (fs::directory_iterator thread(process / "task", gone), end;
       !gone && thread != end; thread.increment(gone)) {
    if (read(thread->path() / "comm") == concat(kArrived, "\n")) return true;
  }
  return false;
}

/// Processes of one rank: a script, for example, and the program.
struct Rank {
  int process = 0;  ///< the youngest
  std::string state;
  bool arrived = false;
};

/// The ranks of this job that have a process on this host.
std::map<int, Rank> ranks_here() {
  const Environment own = environment_of("/proc/self");
  const std::string job = value(own, "PMIX_NAMESPACE");
  const std::string parent = std::to_string(::getppid());
  std::map<int, Rank> ranks;
  std::error_code gone;
  for (fs::directory_iterator entry("/proc", gone), end; !gone && entry != end;
       entry.increment(gone)) {
    const auto process = number(entry->path().filename().string());
    if (!process) continue;
    const Environment environment = environment_of(entry->path());
    const auto rank =
        number(launched_rank([&](const std::string& name) {
                 const std::string text = value(environment, name);
                 return text.empty() ? std::nullopt : std::optional(text);
               }).value_or(""));
    const std::vector<std::string> status = status_of(entry->path());
    if (!rank || status.size() < 2) continue;
    const bool of_this_job = job.empty()
                                 ? status[1] == parent
                                 : value(environment, "PMIX_NAMESPACE") == job;
    if (!of_this_job) continue;
    Rank& found = ranks[*rank];
    if (*process > found.process) {
      found.process = *process;
      found.state = status[0];
    }
    found.arrived = found.arrived || has_arrived(entry->path());
  }
  return ranks;
}

std::string in_words(int number, const Rank& rank) {
  return concat("rank ", number, " (process ", rank.process,
                rank.state == "T"   ? ") is stopped"
                : rank.state == "D" ? ") waits for a disk"
                                    : ") has not come that far");
}

}  // namespace

void show_arrival() {
  ::pthread_setname_np(::pthread_self(), kArrived);
}

std::string who_is_missing() {
  const std::map<int, Rank> ranks = ranks_here();
  std::string missing;
  for (const auto& [number, rank] : ranks) {
    if (rank.arrived && rank.state != "T") continue;
    missing += concat(missing.empty() ? "" : ", ", in_words(number, rank));
  }
  if (!missing.empty()) return missing;
  return concat("all ", ranks.size(), " ranks that host ", host_name(),
                " has a process of have come; one that has ended, or of "
                "another host, has not");
}

}  // namespace osdn::dist
