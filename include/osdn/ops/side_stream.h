#pragma once
// Work that runs beside what is queued after it, on a GPU stream of its own.

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <initializer_list>
#include <memory>
#include <optional>

namespace osdn::ops {

/// On the CPU all of it does nothing. Backward passes of what was done here run
/// on the side stream again, in the engine's order.
class SideStream {
 public:
  /// Work of this thread goes to the side stream from now on. It waits for all
  /// that was queued before; `inputs` are what it reads.
  SideStream(at::Device device, std::initializer_list<at::Tensor> inputs);
  ~SideStream();
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;

  /// Back to the stream of before; the side's work goes on.
  void leave();
  /// After leave(): the stream waits for the side's work, whose results these
  /// are.
  void join(std::initializer_list<at::Tensor> results);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The stream that was current when it was made. Work that is handed over on
/// whatever streams, by whatever threads, goes on there. On the CPU nothing.
class HomeStream {
 public:
  explicit HomeStream(at::Device device);

  /// What the current stream holds, of which these are results, is done before
  /// what goes on at home from now on.
  void follow(std::initializer_list<at::Tensor> results) const;

  /// While it lives, this thread works there.
  class Visit {
   public:
    explicit Visit(const HomeStream& home);
    ~Visit();
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;

   private:
    std::optional<c10::Stream> before_;
  };

 private:
  std::optional<c10::Stream> stream_;
};

/// The current stream reads these tensors, wherever they were made: their
/// memory is not given to others before it is done.
void keep_for_current_stream(std::initializer_list<at::Tensor> tensors);

}  // namespace osdn::ops
