#pragma once
// Of several ranks of a program the first one speaks for all.

#include <cstdio>
#include <tuple>

#include "osdn/core/log.h"
#include "osdn/dist/world.h"

namespace osdn::apps {

/// The other ranks' standard output goes nowhere, and of their log only errors,
/// which are theirs alone, are shown.
inline void first_speaks(const dist::World& world) {
  if (world.place().first()) return;
  log::set_level(log::Level::kError);
  std::ignore = std::freopen("/dev/null", "w", stdout);
}

}  // namespace osdn::apps
