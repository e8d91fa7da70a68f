#include <cuda_runtime.h>

#include "kernels/common/graph.h"
#include "kernels/common/launch_check.cuh"

namespace osdn::kernels {

Graph::~Graph() {
  if (executable_ != nullptr) {
    cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(executable_));
  }
}

void Graph::begin(Stream stream) {
  // Other threads may go on allocating and waiting meanwhile.
  check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
             "recording a graph");
}

void Graph::end(Stream stream) {
  cudaGraph_t graph = nullptr;
  check_cuda(cudaStreamEndCapture(stream, &graph), "recording a graph");
  cudaGraphExec_t executable = nullptr;
  const cudaError_t status = cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  check_cuda(status, "building a recorded graph");
  executable_ = executable;
}

void Graph::abandon(Stream stream) noexcept {
  cudaGraph_t graph = nullptr;
  if (cudaStreamEndCapture(stream, &graph) == cudaSuccess) {
    cudaGraphDestroy(graph);
  }
  cudaGetLastError();  // the next caller starts clean
}

void Graph::start(Stream stream) const {
  check_cuda(cudaGraphLaunch(static_cast<cudaGraphExec_t>(executable_), stream),
             "starting a recorded graph");
}

}  // namespace osdn::kernels
