#pragma once
// The program that started this rank (mpirun, its daemon on this host, srun's),
// which may be killed while the ranks live.

#include <string>

namespace osdn::dist {

/// Before MPI starts: from now on launcher_trouble() knows who started this
/// process, and Open MPI, which ends the ranks the moment their launcher is
/// gone, leaves them two seconds to say so.
void remember_launcher();

/// "its launcher (process 1234) has ended, killed perhaps" once that is so;
/// empty before, and for a process that did not call remember_launcher().
std::string launcher_trouble();

}  // namespace osdn::dist
