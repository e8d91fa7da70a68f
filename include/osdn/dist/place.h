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

/// An MPI launcher (mpirun, mpiexec, srun with PMIx or PMI2) started this
/// process, as its environment says; also where it started only one.
bool started_by_launcher();

}  // namespace osdn::dist
