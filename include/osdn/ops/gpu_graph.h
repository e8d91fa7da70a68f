#pragma once
// Work on a GPU that is the same time after time, recorded once and started
// again with one launch: where the host takes longer to hand a step's small
// kernels over than the GPU to do them, this is what makes it fast.

#include <c10/core/Device.h>

#include <functional>
#include <memory>

namespace osdn::ops {

class GpuGraph {
 public:
  /// False on a CPU, and where LibTorch has no part for CUDA.
  static bool possible(c10::Device device);

  /// Records what `work` hands to the GPU, without doing it. `rehearsal`, the
  /// same kind of work, is done first, so that libraries have set themselves
  /// up. `work` must not wait for the GPU; it goes to the current stream and to
  /// streams that wait for it and that it waits for (SideStream, a backward
  /// pass). Memory that it takes stays reserved: a tensor that it makes and
  /// that is kept lies in the same place after every run(). What is not kept
  /// may be shared with `beside`, an earlier recording, which then never runs
  /// at the same time. Throws Error when something in `work` cannot be
  /// recorded.
  GpuGraph(c10::Device device, const std::function<void()>& rehearsal,
           const std::function<void()>& work, const GpuGraph* beside = nullptr);
  ~GpuGraph();
  GpuGraph(GpuGraph&&) noexcept;
  GpuGraph& operator=(GpuGraph&&) noexcept;

  /// Does the work, on the current stream, from the values that its inputs'
  /// places hold now.
  void run() const;

 private:
  struct Recording;
  std::unique_ptr<Recording> recording_;
};

}  // namespace osdn::ops
