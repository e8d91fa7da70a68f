#include "adamw_cuda.h"

#include <ATen/ops/empty.h>

#include <cstring>
#include <span>

#include "osdn/ops/cuda_stream.h"
#include "osdn/ops/to_device.h"

namespace osdn::optim {
namespace {

at::Tensor upload(std::span<const std::byte> bytes, at::Device device) {
  at::Tensor host =
      at::empty({static_cast<std::int64_t>(bytes.size())}, at::kByte);
  std::memcpy(host.data_ptr(), bytes.data(), bytes.size());
  return ops::to_device(host, device);
}

float* floats(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.data_ptr<float>() : nullptr;
}

/// The tensors as the kernels read them, on the device.
struct Table {
  explicit Table(const std::vector<DeviceSlot>& slots) {
    std::vector<kernels::AdamWTensor> tensors;
    for (const DeviceSlot& slot : slots) {
      kernels::AdamWTensor t;
      t.master = floats(slot.master);
      t.m = floats(slot.exp_avg);
      t.v = floats(slot.exp_avg_sq);
      if (slot.gradient.defined()) {
        gradients.push_back(slot.gradient.contiguous());
        t.grad = gradients.back().data_ptr();
        t.grad_element = gradients.back().scalar_type() == at::kBFloat16
                             ? kernels::Element::kBF16
                             : kernels::Element::kF32;
      }
      t.copy = slot.copy.defined() ? slot.copy.data_ptr() : nullptr;
      t.n = slot.master.numel();
      t.weight_decay = static_cast<float>(slot.weight_decay);
      tensors.push_back(t);
    }
    const std::vector<std::byte> packed =
        kernels::adamw_pack_table(tensors, table);
    device = upload(packed, slots.front().master.device());
    table.device = device.data_ptr();
  }

  kernels::AdamWTable table;
  at::Tensor device;
  std::vector<at::Tensor> gradients;  // contiguous ones, kept alive
};

}  // namespace

double global_norm_cuda(const std::vector<DeviceSlot>& slots) {
  if (slots.empty()) return 0;
  const Table table(slots);
  kernels::GlobalNormParams p;
  p.table = table.table;
  const at::TensorOptions bytes = table.device.options();
  const at::Tensor workspace =
      at::empty({kernels::global_norm_workspace_bytes(p)}, bytes);
  const at::Tensor result = at::empty({2}, bytes.dtype(at::kFloat));
  p.workspace = static_cast<double*>(workspace.data_ptr());
  p.norm_and_clip = result.data_ptr<float>();
  kernels::global_norm(p, ops::current_stream(result.device()));
  return static_cast<double>(result[0].item<float>());
}

void adamw_cuda(const std::vector<DeviceSlot>& slots,
                const DeviceUpdate& update) {
  if (slots.empty()) return;
  const Table table(slots);
  struct {
    kernels::AdamWStep step;
    float clip;
  } const changing{
      {static_cast<float>(update.lr), static_cast<float>(update.c1),
       static_cast<float>(update.c2)},
      static_cast<float>(update.grad_scale)};
  const at::Tensor device =
      upload(std::as_bytes(std::span(&changing, 1)), table.device.device());
  const auto* at_device = static_cast<const std::byte*>(device.data_ptr());
  kernels::AdamWParams p;
  p.table = table.table;
  p.beta1 = static_cast<float>(update.beta1);
  p.beta2 = static_cast<float>(update.beta2);
  p.eps = static_cast<float>(update.eps);
  p.step = reinterpret_cast<const kernels::AdamWStep*>(at_device);
  p.clip = reinterpret_cast<const float*>(at_device + sizeof(changing.step));
  kernels::adamw(p, ops::current_stream(device.device()));
}

}  // namespace osdn::optim
