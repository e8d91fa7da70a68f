#pragma once
// How long parts of a step hold up its computation: between events on the GPU's
// stream, by the wall clock on a CPU.

#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "osdn/dist/collectives.h"

namespace osdn::bench {

enum class Part { kGradientsWait, kWeightsWait, kUpdate };
inline constexpr std::size_t kParts = 3;

class PartClock {
 public:
  explicit PartClock(c10::Device device) : device_(device) {}

  void begin(Part part);
  void end(Part part);
  /// What begins from now on belongs to the next step.
  void next_step() { ++step_; }
  /// Seconds of each part in each step, once all is done on the device.
  std::vector<std::array<double, kParts>> take();

 private:
  struct Mark {
    std::optional<c10::Event> event{};
    std::chrono::steady_clock::time_point time{};
  };
  struct Span {
    std::size_t step;
    Part part;
    Mark begin;
    Mark end;
  };
  Mark mark() const;
  double between(const Mark& begin, const Mark& end) const;

  c10::Device device_;
  std::size_t step_ = 0;
  std::vector<Span> spans_;
};

/// The same operations; what the caller waits for them goes to `clock`, which
/// outlives them.
std::unique_ptr<dist::Collectives> timed_collectives(
    std::unique_ptr<dist::Collectives> collectives, PartClock& clock);

}  // namespace osdn::bench
