#pragma once
// What AdamW's moments cannot tell; goes into the checkpoint beside them.

#include <cstdint>

namespace osdn::optim {

struct AdamWCounters {
  std::int64_t updates = 0;  ///< applied so far
  double beta1_product = 1;  ///< of beta1 over the updates
  double beta2_product = 1;
};

}  // namespace osdn::optim
