#include "train/poison.h"

#include <limits>

#include "osdn/model/language_model.h"

namespace osdn::test {

void poison_gradient(const model::LanguageModel& model) {
  model.parameters().back().tensor.mutable_grad().view({-1})[0].fill_(
      std::numeric_limits<double>::quiet_NaN());
}

}  // namespace osdn::test
