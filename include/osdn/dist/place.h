#pragma once
// Where this process stands among those that one launcher started.

#include <string>

namespace osdn::dist {

struct Place {
  int rank = 0;
  int size = 1;
  int local_rank = 0;  ///< among the ranks of this host
  int local_size = 1;
  std::string host;  ///< its name

  bool alone() const { return size == 1; }
  bool first() const { return rank == 0; }
};

}  // namespace osdn::dist
