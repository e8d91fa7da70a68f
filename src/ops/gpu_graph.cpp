#include "osdn/ops/gpu_graph.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <atomic>
#include <exception>
#include <string>
#include <utility>

#include "kernels/common/graph.h"
#include "osdn/core/error.h"
#include "osdn/ops/cuda_stream.h"
#include "osdn/ops/gpu.h"

namespace osdn::ops {
namespace {

using c10::impl::VirtualGuardImpl;

/// LibTorch's own for CUDA. Its functions are virtual, so that nothing of
/// libtorch_cuda is linked.
c10::cuda::CUDACachingAllocator::CUDAAllocator& allocator() {
  return static_cast<c10::cuda::CUDACachingAllocator::CUDAAllocator&>(
      *c10::getDeviceAllocator(c10::DeviceType::CUDA));
}

/// The default stream cannot be recorded. One for the process: what libraries
/// keep for a stream is kept once.
c10::Stream recording_stream(const VirtualGuardImpl& guard,
                             c10::Device device) {
  static const c10::Stream stream = guard.getStreamFromGlobalPool(device);
  return stream;
}

/// A pool of memory that only recordings take from.
class Pool {
 public:
  explicit Pool(c10::DeviceIndex device) : device_(device), id_(next_id()) {}
  ~Pool() {
    for (int i = 0; i < recordings_; ++i) allocator().releasePool(device_, id_);
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /// Whatever is taken until leave(), on any stream: nothing but the recording
  /// goes on meanwhile.
  void enter() {
    allocator().beginAllocateToPool(device_, id_,
                                    [](CUstream_st*) { return true; });
    ++recordings_;
  }
  void leave() { allocator().endAllocateToPool(device_, id_); }

 private:
  static c10::MempoolId_t next_id() {
    // Far from those that LibTorch hands out itself.
    static std::atomic<unsigned long long> count{1ull << 40};
    return {count++, 0};
  }

  c10::DeviceIndex device_;
  c10::MempoolId_t id_;
  int recordings_ = 0;
};

}  // namespace

struct GpuGraph::Recording {
  Recording(c10::Device on, std::shared_ptr<Pool> memory)
      : device(on), pool(std::move(memory)) {}

  void record(CUstream_st* stream, const std::function<void()>& work) {
    pool->enter();
    try {
      graph.begin(stream);
      try {
        work();
      } catch (...) {
        graph.abandon(stream);
        throw;
      }
      graph.end(stream);
    } catch (...) {
      pool->leave();
      throw;
    }
    pool->leave();
  }

  c10::Device device;
  std::shared_ptr<Pool> pool;  // outlives the graph, which works in it
  kernels::Graph graph;
};

bool GpuGraph::possible(c10::Device device) {
  return device.is_cuda() && gpu().usable;
}

GpuGraph::GpuGraph(c10::Device device, const std::function<void()>& rehearsal,
                   const std::function<void()>& work, const GpuGraph* beside)
    : recording_(new Recording(
          device, beside ? beside->recording_->pool
                         : std::make_shared<Pool>(device.index()))) {
  const VirtualGuardImpl guard(device.type());
  const c10::Stream main = guard.getStream(device);
  const c10::Stream side = recording_stream(guard, device);
  synchronize_gpu();
  guard.exchangeStream(side);
  std::exception_ptr failed;
  try {
    rehearsal();
    synchronize_gpu();
    recording_->record(current_stream(device), work);
  } catch (...) {
    failed = std::current_exception();
  }
  guard.exchangeStream(main);
  if (!failed) return;
  try {
    std::rethrow_exception(failed);
  } catch (const std::exception& e) {
    throw Error(std::string("work for the GPU could not be recorded: ") +
                e.what());
  }
}

GpuGraph::~GpuGraph() = default;
GpuGraph::GpuGraph(GpuGraph&&) noexcept = default;
GpuGraph& GpuGraph::operator=(GpuGraph&&) noexcept = default;

void GpuGraph::run() const {
  recording_->graph.start(current_stream(recording_->device));
}

}  // namespace osdn::ops
