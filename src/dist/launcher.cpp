#include <array>

#include "osdn/core/env.h"
#include "osdn/dist/place.h"

namespace osdn::dist {

bool started_by_launcher() {
  // Open MPI's mpirun; any launcher through PMIx (srun --mpi=pmix, prun);
  // MPICH's mpiexec and srun --mpi=pmi2.
  constexpr std::array kNames = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK",
                                 "PMI_RANK", "PMI_ID"};
  for (const char* name : kNames) {
    if (env(name)) return true;
  }
  return false;
}

}  // namespace osdn::dist
