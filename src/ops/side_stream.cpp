#include "osdn/ops/side_stream.h"

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace osdn::ops {
namespace {

using c10::impl::VirtualGuardImpl;

/// One for the process, so that its memory is used again and again. Its few
/// blocks go first: they are the long ones.
c10::Stream side_of(const VirtualGuardImpl& guard, at::Device device) {
  static const c10::Stream side =
      guard.getStreamFromGlobalPool(device, /*isHighPriority=*/true);
  return side;
}

void keep(const c10::Stream& stream,
          std::initializer_list<at::Tensor> tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined() && tensor.is_cuda()) tensor.record_stream(stream);
  }
}

void wait(const c10::Stream& waiting, const c10::Stream& worked) {
  c10::Event event(worked.device_type());
  event.record(worked);
  event.block(waiting);
}

}  // namespace

struct SideStream::State {
  explicit State(at::Device device)
      : guard(device.type()),
        main(guard.getStream(device)),
        side(side_of(guard, device)) {}

  VirtualGuardImpl guard;
  c10::Stream main;
  c10::Stream side;
  bool inside = true;
};

SideStream::SideStream(at::Device device,
                       std::initializer_list<at::Tensor> inputs) {
  if (device.is_cpu()) return;
  state_ = std::make_unique<State>(device);
  wait(state_->side, state_->main);
  keep(state_->side, inputs);
  state_->guard.exchangeStream(state_->side);
}

SideStream::~SideStream() {
  leave();
}

void SideStream::leave() {
  if (!state_ || !state_->inside) return;
  state_->guard.exchangeStream(state_->main);
  state_->inside = false;
}

void SideStream::join(std::initializer_list<at::Tensor> results) {
  if (!state_) return;
  wait(state_->main, state_->side);
  keep(state_->main, results);
}

HomeStream::HomeStream(at::Device device) {
  if (device.is_cpu()) return;
  stream_ = VirtualGuardImpl(device.type()).getStream(device);
}

void HomeStream::follow(std::initializer_list<at::Tensor> results) const {
  if (!stream_) return;
  const c10::Stream here =
      VirtualGuardImpl(stream_->device_type()).getStream(stream_->device());
  if (here == *stream_) return;
  wait(*stream_, here);
  keep(*stream_, results);
}

HomeStream::Visit::Visit(const HomeStream& home) {
  if (!home.stream_) return;
  before_ = VirtualGuardImpl(home.stream_->device_type())
                .exchangeStream(*home.stream_);
}

HomeStream::Visit::~Visit() {
  if (before_) {
    VirtualGuardImpl(before_->device_type()).exchangeStream(*before_);
  }
}

void keep_for_current_stream(std::initializer_list<at::Tensor> tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined() || !tensor.is_cuda()) continue;
    const VirtualGuardImpl guard(tensor.device().type());
    tensor.record_stream(guard.getStream(tensor.device()));
  }
}

}  // namespace osdn::ops
