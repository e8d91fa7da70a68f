#pragma once
// Work on a stream of its own beside the caller's: begins behind what the
// caller has queued, and is waited for by ticket.

#include <cuda_runtime.h>

#include <functional>
#include <map>
#include <vector>

#include "osdn/dist/collectives.h"

namespace osdn::dist {

class SideWork {
 public:
  using Ticket = Collectives::Ticket;

  /// The stream has the highest priority.
  explicit SideWork(std::function<CUstream_st*()> caller_stream);
  /// The stream's work is to be over.
  ~SideWork();
  SideWork(const SideWork&) = delete;
  SideWork& operator=(const SideWork&) = delete;

  cudaStream_t stream() const { return stream_; }
  /// The stream goes on when what the caller's holds now is done.
  void follow();
  /// Of what the stream holds now.
  Ticket mark();
  /// The caller's stream goes on when that is done. Once for each ticket.
  void wait(Ticket ticket);

 private:
  cudaEvent_t take_event();

  std::function<CUstream_st*()> caller_stream_;
  cudaStream_t stream_ = nullptr;
  std::vector<cudaEvent_t> spare_;
  std::map<Ticket, cudaEvent_t> marks_;  // not waited for
  Ticket next_ = 0;
};

}  // namespace osdn::dist
