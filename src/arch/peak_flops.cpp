#include "osdn/arch/peak_flops.h"

#include <array>

namespace osdn::arch {

std::optional<double> peak_flops(const std::string& gpu_name) {
  struct Known {
    const char* name;
    double flops;
  };
  constexpr std::array<Known, 4> kKnown = {{{"H200", 989e12},
                                            {"H100 PCIe", 756e12},
                                            {"H100 NVL", 835e12},
                                            {"H100", 989e12}}};
  for (const Known& known : kKnown) {
    if (gpu_name.find(known.name) != std::string::npos) return known.flops;
  }
  return {};
}

}  // namespace osdn::arch
