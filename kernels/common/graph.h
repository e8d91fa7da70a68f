#pragma once
// Work of a stream, recorded once and started again with one call: a CUDA
// graph. No CUDA header is needed.

#include "kernels/common/launcher.h"

namespace osdn::kernels {

class Graph {
 public:
  Graph() = default;
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  /// From here on what goes to `stream`, which is not the default one, is
  /// recorded and not done.
  void begin(Stream stream);
  /// Ends the recording. Throws when it holds something that cannot be
  /// recorded.
  void end(Stream stream);
  /// Ends a recording that is not wanted any more; does not throw.
  void abandon(Stream stream) noexcept;

  /// Starts what was recorded, on any stream.
  void start(Stream stream) const;

 private:
  void* executable_ = nullptr;
};

}  // namespace osdn::kernels
