#include "side_work.h"

#include <utility>

#include "cuda_check.h"

namespace osdn::dist {

SideWork::SideWork(std::function<CUstream_st*()> caller_stream)
    : caller_stream_(std::move(caller_stream)) {
  int least = 0;
  int greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "priorities");
  check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest),
        "the stream of the collectives");
}

SideWork::~SideWork() {
  for (const cudaEvent_t event : spare_) cudaEventDestroy(event);
  for (const auto& [ticket, event] : marks_) cudaEventDestroy(event);
  cudaStreamDestroy(stream_);
}

void SideWork::follow() {
  const cudaEvent_t reached = take_event();
  check(cudaEventRecord(reached, caller_stream_()), "an event");
  check(cudaStreamWaitEvent(stream_, reached), "an event");
  spare_.push_back(reached);  // the wait is for what it marks now
}

SideWork::Ticket SideWork::mark() {
  const cudaEvent_t done = take_event();
  check(cudaEventRecord(done, stream_), "an event");
  marks_[next_] = done;
  return next_++;
}

void SideWork::wait(Ticket ticket) {
  const cudaEvent_t done = marks_.at(ticket);
  marks_.erase(ticket);
  check(cudaStreamWaitEvent(caller_stream_(), done),
        "waiting for a collective");
  spare_.push_back(done);
}

cudaEvent_t SideWork::take_event() {
  if (!spare_.empty()) {
    const cudaEvent_t event = spare_.back();
    spare_.pop_back();
    return event;
  }
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "an event");
  return event;
}

}  // namespace osdn::dist
