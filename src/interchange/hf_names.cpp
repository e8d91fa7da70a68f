#include "hf_names.h"

#include <array>
#include <string_view>
#include <utility>

namespace osdn::interchange {

std::string name_in_files(const config::ModelConfig& model,
                          const std::string& name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4>
      kLlamaWords = {{{".embeddings.", ".embed_tokens."},
                      {".attn_norm.", ".input_layernorm."},
                      {".mlp_norm.", ".post_attention_layernorm."},
                      {".attn.", ".self_attn."}}};
  if (!model.is_transformer()) return name;
  for (const auto& [ours, theirs] : kLlamaWords) {
    const std::size_t at = name.find(ours);
    if (at != std::string::npos) {
      return std::string(name).replace(at, ours.size(), theirs);
    }
  }
  return name;
}

}  // namespace osdn::interchange
