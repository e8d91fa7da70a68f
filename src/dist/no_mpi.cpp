// The twin of transport_mpi.cpp for builds without MPI: one rank.

#include "osdn/core/error.h"
#include "osdn/core/host.h"
#include "osdn/dist/transport.h"

namespace osdn::dist {

std::unique_ptr<Transport> join_ranks(
    std::chrono::duration<double> /*timeout*/) {
  if (launched_rank()) {
    throw Error(
        "an MPI launcher started this program, which was built without MPI; "
        "build it where MPI is found (libopenmpi-dev), or start it without "
        "mpirun or srun for one rank",
        ExitCode::kUsage);
  }
  return nullptr;
}

}  // namespace osdn::dist
