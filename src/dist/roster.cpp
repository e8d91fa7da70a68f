#include "osdn/dist/roster.h"

#include <algorithm>
#include <cmath>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"

namespace osdn::dist {
namespace {

using Seconds = Roster::Seconds;

std::string seconds_text(Seconds time) {
  const double seconds = time.count();
  return concat(
      seconds < 10 ? std::round(seconds * 10) / 10 : std::round(seconds), " s");
}

std::string place(const Progress& progress) {
  if (progress.on.empty()) return "";
  return progress.waiting
             ? concat(progress.on, " (operation ", progress.sequence, ")")
             : progress.on;
}

/// ", as do ranks 3 and 5": those after the first.
std::string others(const std::vector<int>& ranks, const std::string& how) {
  if (ranks.size() < 2) return "";
  std::string text = ranks.size() == 2 ? " rank " : " ranks ";
  constexpr std::size_t kNamed = 8;
  for (std::size_t i = 1; i < ranks.size() && i <= kNamed; ++i) {
    if (i > 1) text += ", ";
    text += std::to_string(ranks[i]);
  }
  if (ranks.size() > kNamed + 1) {
    text += concat(" and ", ranks.size() - kNamed - 1, " more");
  }
  return concat(", ", how, text);
}

}  // namespace

Roster::Roster(const std::vector<Member>& members, Seconds patience,
               TimePoint now)
    : patience_(patience) {
  for (const Member& member : members) {
    entries_.push_back({.member = member, .heard_at = now});
  }
}

std::size_t Roster::index(int rank) const {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].member.rank == rank) return i;
  }
  throw Error(concat("rank ", rank, " is not watched here"));
}

void Roster::heard(int rank, const Progress& progress, TimePoint now) {
  Entry& found = entries_[index(rank)];
  found.heard_at = now;
  if (progress.count != found.progress.count) {
    found.behind_since.reset();
    found.stuck_since.reset();
  }
  found.progress = progress;
}

void Roster::left(int rank) {
  entries_[index(rank)].left = true;
}

std::string Roster::last_known(int rank) const {
  return place(entries_[index(rank)].progress);
}

std::optional<RankFailure> Roster::find(TimePoint now) {
  if (auto silent = find_silent(now)) return silent;
  if (auto behind = find_behind(now)) return behind;
  return find_stuck(now);
}

std::optional<RankFailure> Roster::find_silent(TimePoint now) const {
  const Entry* first = nullptr;
  std::vector<int> ranks;
  for (const Entry& entry : entries_) {
    if (entry.left || now - entry.heard_at <= patience_) continue;
    if (first == nullptr) first = &entry;
    ranks.push_back(entry.member.rank);
  }
  if (first == nullptr) return std::nullopt;
  const std::string last = place(first->progress);
  return RankFailure{
      first->member.rank, first->member.host,
      concat("gave no sign of life for ", seconds_text(now - first->heard_at),
             others(ranks, "nor did"),
             ": its process is stopped, or its host or the network to it is "
             "gone",
             last.empty() ? "" : "; last known: ", last)};
}

const Roster::Entry* Roster::furthest_waiting() const {
  const Entry* furthest = nullptr;
  for (const Entry& entry : entries_) {
    if (entry.progress.waiting && !entry.left &&
        (furthest == nullptr ||
         entry.progress.sequence > furthest->progress.sequence)) {
      furthest = &entry;
    }
  }
  return furthest;
}

Roster::Overdue Roster::find_overdue(
    std::optional<TimePoint> Entry::*since, TimePoint now,
    const std::function<bool(const Entry&)>& applies) {
  Overdue overdue;
  for (Entry& entry : entries_) {
    if (!applies(entry)) {
      (entry.*since).reset();
      continue;
    }
    if (!(entry.*since)) entry.*since = now;
    if (now - *(entry.*since) <= patience_) continue;
    if (overdue.first == nullptr) overdue.first = &entry;
    overdue.ranks.push_back(entry.member.rank);
  }
  return overdue;
}

std::optional<RankFailure> Roster::find_behind(TimePoint now) {
  const Entry* waiting = furthest_waiting();
  const auto [first, ranks] =
      find_overdue(&Entry::behind_since, now, [&](const Entry& entry) {
        return waiting != nullptr &&
               entry.progress.sequence < waiting->progress.sequence;
      });
  if (first == nullptr) return std::nullopt;
  const std::string last = place(first->progress);
  const std::string state =
      first->left
          ? "has left the run"
          : concat(first->progress.waiting ? "still waits in " : "is still at ",
                   last.empty() ? "its start" : last);
  return RankFailure{
      first->member.rank, first->member.host,
      concat(first->left ? "is missing: for " : "hangs: for ",
             seconds_text(now - *first->behind_since), " it has not come to ",
             place(waiting->progress), ", in which rank ", waiting->member.rank,
             " waits; it ", state, others(ranks, "as are"))};
}

std::optional<RankFailure> Roster::find_stuck(TimePoint now) {
  std::uint64_t all_came_to = UINT64_MAX;
  for (const Entry& entry : entries_) {
    all_came_to = std::min(all_came_to, entry.progress.sequence);
  }
  const auto [first, ranks] =
      find_overdue(&Entry::stuck_since, now, [&](const Entry& entry) {
        return !entry.left && entry.progress.waiting &&
               entry.progress.sequence <= all_came_to;
      });
  if (first == nullptr) return std::nullopt;
  return RankFailure{
      first->member.rank, first->member.host,
      concat("hangs in ", place(first->progress), ": for ",
             seconds_text(now - *first->stuck_since),
             " it has not ended, though every rank has come to it",
             others(ranks, "as does"))};
}

}  // namespace osdn::dist
