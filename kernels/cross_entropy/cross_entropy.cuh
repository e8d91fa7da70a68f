#pragma once
// Cross-entropy over a chunk of logits, with the gradient in their place
// (docs/kernels/cross_entropy.md). Row by row, l the label:
//
//   loss = log sum_j exp(x_j) - x_l;   x_j <- (softmax(x)_j - [j = l]) * scale
//
// n rows of `vocab` logits. A label of -100 means none: loss 0 and a gradient
// of zeros, whatever the logits hold. Any other label outside [0, vocab) gives
// a loss and a gradient of NaN, which the caller's check for finite losses
// finds. Rows of whole 16-byte packs up to 128 KiB are read once; others twice.

#include "kernels/common/launcher.h"

namespace osdn::kernels {

inline constexpr std::int64_t kNoLabel = -100;

struct CrossEntropyParams {
  std::int64_t rows = 0;
  std::int64_t vocab = 0;
  Element element = Element::kBF16;
  void* logits = nullptr;                ///< [n,vocab], element; overwritten
  std::int64_t logits_stride = 0;        ///< elements from row to row; 0: vocab
  const std::int64_t* labels = nullptr;  ///< [n], on the device
  /// The gradient carries scale, times *scale_device where that is given.
  float scale = 1.0f;
  const float* scale_device = nullptr;
  bool write_gradient = true;  ///< false: logits are left as they are
  float* loss = nullptr;       ///< [n]
  /// On the device, or null: the rows' losses, and the number of labels, are
  /// added to what is there, in a fixed order.
  double* loss_sum = nullptr;
  std::int64_t* label_count = nullptr;
};

const char* cross_entropy_unsupported(const CrossEntropyParams&);
void cross_entropy(const CrossEntropyParams&, Stream stream);

}  // namespace osdn::kernels
