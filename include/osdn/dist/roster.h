#pragma once
// Which ranks are alive, and which of them hold up the others: the arithmetic
// of the watch, without its threads and sockets.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "osdn/dist/watch.h"

namespace osdn::dist {

/// What a rank says about itself with every sign of life.
struct Progress {
  std::uint64_t count = 0;     ///< grows with every report of progress
  std::uint64_t sequence = 0;  ///< the last collective operation it came to
  bool waiting = false;        ///< in that operation now
  std::string on{};            ///< what it works on or waits in
};

class Roster {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Seconds = std::chrono::duration<double>;

  struct Member {
    int rank = 0;
    std::string host{};
  };

  /// All alive at `now`. A rank may be silent, or keep others waiting, for
  /// `patience`.
  Roster(const std::vector<Member>& members, Seconds patience, TimePoint now);

  void heard(int rank, const Progress& progress, TimePoint now);
  /// It ended well: it may fall silent, but not be waited for.
  void left(int rank);
  bool has_left(int rank) const { return entries_[index(rank)].left; }
  /// "step 17" or "gradients (operation 5)"; "" where it has said nothing.
  std::string last_known(int rank) const;

  /// A rank that has been silent for `patience`, if there is one.
  std::optional<RankFailure> find_silent(TimePoint now) const;
  /// That, or else, where all ranks are members,
  ///  * one that is behind the operation in which another waits, and has made
  ///    no progress since, for `patience`;
  ///  * one that waits in an operation that all have come to, for `patience`
  ///    since they have: the operation itself does not end.
  std::optional<RankFailure> find(TimePoint now);

 private:
  struct Entry {
    Member member{};
    Progress progress{};
    bool left = false;
    TimePoint heard_at{};
    std::optional<TimePoint> behind_since{};
    std::optional<TimePoint> stuck_since{};
  };

  /// Entries to which something has applied for longer than the patience.
  struct Overdue {
    const Entry* first = nullptr;
    std::vector<int> ranks{};
  };

  std::size_t index(int rank) const;
  /// `since` notes when `applies` began to hold.
  Overdue find_overdue(std::optional<TimePoint> Entry::*since, TimePoint now,
                       const std::function<bool(const Entry&)>& applies);
  std::optional<RankFailure> find_behind(TimePoint now);
  std::optional<RankFailure> find_stuck(TimePoint now);
  /// The waiting rank that is furthest, or null.
  const Entry* furthest_waiting() const;

  Seconds patience_;
  std::vector<Entry> entries_;
};

}  // namespace osdn::dist
