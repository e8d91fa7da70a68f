#pragma once
// Moves memory between the ranks: what World and the collectives on host memory
// stand on. One implementation speaks MPI (transport_mpi.cpp); its twin for
// builds without it is no_mpi.cpp.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "osdn/dist/pending.h"
#include "osdn/dist/place.h"

namespace osdn::dist {

/// Calls are queued and done in order, by a thread of the transport's own. All
/// ranks must make the same calls in the same order. What a Pending reads and
/// writes must stay until it is done.
class Transport {
 public:
  using Ticket = std::shared_ptr<Pending>;

  virtual ~Transport() = default;
  virtual Place place() const = 0;

  /// In place: rank r's part, `bytes` long, lies at r * bytes before; all parts
  /// after.
  virtual Ticket all_gather(std::string what, std::byte* parts,
                            std::int64_t bytes) = 0;
  /// Rank r's part of `from`, at r * bytes, goes to rank r, which finds those
  /// meant for it in `into`, ordered by sender.
  virtual Ticket exchange(std::string what, const std::byte* from,
                          std::byte* into, std::int64_t bytes) = 0;
  /// Runs `work` on the transport's thread, after what was queued before.
  virtual Ticket then(std::string what, std::function<void()> work) = 0;

  /// Parts from the other ranks (MPI_Finalize).
  virtual Ticket part() = 0;
  /// The thread is not waited for from now on.
  virtual void abandon() = 0;
};

/// Null where no launcher started this process. Throws Error as World does.
std::unique_ptr<Transport> join_ranks(std::chrono::duration<double> timeout);

}  // namespace osdn::dist
