#pragma once
// Softmax attention in a config.json: transformers' Llama, whose keys are all
// of its own, and the `attn` of flash-linear-attention's hybrids.

#include "hf_keys.h"
#include "osdn/config/config.h"

namespace osdn::interchange {

/// Every key of a Llama that has an effect; what osdn lacks (biases, scaled
/// rotary positions) is reported.
void read_llama(HfKeys& keys, config::ModelConfig& model);

/// `attn`, after the model's other sizes: which layers have softmax attention,
/// and its heads. A window and biases are reported as lacking.
void read_hybrid(HfKeys& keys, config::ModelConfig& model);

/// bos_token_id, eos_token_id and pad_token_id, which any model has.
void read_token_ids(HfKeys& keys, config::ModelConfig& model);

}  // namespace osdn::interchange
