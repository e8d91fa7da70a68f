#pragma once
// The command lines of ranks, which a launcher may have started with different
// ones.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "command_line.h"
#include "first_speaks.h"
#include "osdn/core/concat.h"
#include "osdn/core/host.h"
#include "osdn/dist/world.h"

namespace osdn::apps {

/// Joins the ranks that a launcher started, each of which has parsed its own
/// command line (try_parse): what all end with the first one says, and where
/// they differ, an Error names the ranks that cannot go on. The exit code,
/// where the program has nothing left to do; else `world` is there.
inline std::optional<ExitCode> join_ranks(
    const std::optional<CommandLineEnd>& end,
    std::optional<dist::World>& world) {
  // In an interactive shell of Slurm, too, which is a rank by itself.
  if (end && !(launched_rank() && launched_with_others())) return say(*end);
  world.emplace();
  first_speaks(*world);
  const auto told = [](const CommandLineEnd& own) {
    return own.code == ExitCode::kOk
               ? "--help or --version is asked for, which not all ranks are"
               : own.err.substr(0, own.err.find_last_not_of('\n') + 1);
  };
  const std::vector<std::string> all = world->all(end ? told(*end) : "");
  std::string message;
  bool same = true;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    same = same && all[rank] == all.front();
    if (all[rank].empty()) continue;
    message +=
        concat(message.empty() ? "" : "\n", "rank ", rank, ": ", all[rank]);
  }
  if (!same) world->throw_agreed(message, ExitCode::kUsage);
  if (!end) return std::nullopt;
  return world->place().first() ? say(*end) : end->code;
}

/// Collective: where a rank differs from the first one in `own`, all throw an
/// AgreedError with said(the first's, that rank's number, its own).
template <typename Said>
void check_same(dist::World& world, const std::string& own, const Said& said) {
  const std::vector<std::string> all = world.all(own);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all.front()) continue;
    world.throw_agreed(concat("the ranks do not fit together",
                              said(all.front(), rank, all[rank])),
                       ExitCode::kUsage);
  }
}

/// Collective: refuses ranks that were started for different things, for
/// example "training" and "--dry-run".
inline void check_same_task(dist::World& world, const std::string& task) {
  check_same(
      world, task,
      [](const std::string& first, std::size_t rank, const std::string& other) {
        return concat(": rank 0 was started for ", first, " and rank ", rank,
                      " for ", other);
      });
}

/// Collective: refuses ranks with other options than the first one's, for
/// programs whose work nothing else compares.
inline void check_same_options(dist::World& world, int argc, char** argv) {
  std::string own;
  for (int i = 1; i < argc; ++i) own += concat(i == 1 ? "" : " ", argv[i]);
  check_same(
      world, own,
      [](const std::string& first, std::size_t rank, const std::string& other) {
        return concat(", their options differ:\n  rank 0: ", first, "\n  rank ",
                      rank, ": ", other);
      });
}

}  // namespace osdn::apps
