#include <stdexcept>

#include "kernels/common/device_info.h"
#include "kernels/common/graph.h"

namespace osdn::kernels {

DeviceInfo device_info() {
  DeviceInfo info;
  info.why_none = "this osdn was built without CUDA";
  return info;
}

bool runs_hopper_code() {
  return false;
}

Graph::~Graph() = default;
void Graph::begin(Stream) {
  throw std::runtime_error(
      "recording a graph: this osdn was built without CUDA");
}
void Graph::end(Stream) {}
void Graph::abandon(Stream) noexcept {}
void Graph::start(Stream) const {}

}  // namespace osdn::kernels
