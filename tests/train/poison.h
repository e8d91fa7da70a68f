#pragma once
// Makes a step's gradients bad, without LibTorch's headers.

namespace osdn::model {
class LanguageModel;
}

namespace osdn::test {

/// One NaN in the gradient of the last parameter.
void poison_gradient(const model::LanguageModel& model);

}  // namespace osdn::test
