#pragma once
// Which of the ranks that a launcher started on this host have come to the
// start. MPI brings all of them together or none, and names nobody.

#include <string>

namespace osdn::dist {

/// By the thread that waits for the others: as long as it runs, they see that
/// this rank has come.
void show_arrival();

/// "rank 1 (process 4321) is stopped", from what the system says of this host's
/// processes; that all of this host have come, where they have.
std::string who_is_missing();

}  // namespace osdn::dist
