#include "kernels/common/device_info.h"

namespace osdn::kernels {

DeviceInfo device_info() {
  DeviceInfo info;
  info.why_none = "this osdn was built without CUDA";
  return info;
}

bool runs_hopper_code() {
  return false;
}

}  // namespace osdn::kernels
