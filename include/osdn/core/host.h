#pragma once
// The machine that the process runs on, and the launcher that started it.

#include <functional>
#include <optional>
#include <string>

namespace osdn {

/// Empty when the system does not say it.
std::string host_name();

/// This process's number among those that an MPI launcher started, as its
/// environment says; nothing without a launcher. Open MPI's mpirun; any
/// launcher through PMIx (srun --mpi=pmix, prun); MPICH's mpiexec and srun
/// --mpi=pmi2.
std::optional<std::string> launched_rank();
/// Whether it started several, as far as the environment says; true where it
/// does not.
bool launched_with_others();
/// launched_rank() of another process, whose variables `variable` returns.
std::optional<std::string> launched_rank(
    const std::function<std::optional<std::string>(const std::string&)>&
        variable);

}  // namespace osdn
