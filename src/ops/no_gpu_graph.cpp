// GpuGraph in a build without CUDA.

#include "osdn/core/error.h"
#include "osdn/ops/gpu_graph.h"

namespace osdn::ops {

struct GpuGraph::Recording {};

bool GpuGraph::possible(c10::Device) {
  return false;
}

GpuGraph::GpuGraph(c10::Device, const std::function<void()>&,
                   const std::function<void()>&, const GpuGraph*) {
  throw Error("work for the GPU cannot be recorded: built without CUDA");
}

GpuGraph::~GpuGraph() = default;
GpuGraph::GpuGraph(GpuGraph&&) noexcept = default;
GpuGraph& GpuGraph::operator=(GpuGraph&&) noexcept = default;
void GpuGraph::run() const {}

}  // namespace osdn::ops
