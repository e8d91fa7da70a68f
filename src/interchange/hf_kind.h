#pragma once
// The model types of layers.md 7.

#include <array>
#include <string_view>

#include "osdn/config/config.h"

namespace osdn::interchange {

// Whose classes a model type belongs to: that decides defaults and traps.
enum class Family {
  kPlain,      ///< flash-linear-attention
  kOsla,       ///< online-scaled, of the OSDN authors' code
  kOsdnDelta,  ///< ours, for DeltaNets that theirs cannot express
  kLlama,      ///< transformers' Llama: names and keys of its own
};

struct HfKind {
  std::string_view model_type;
  config::LayerKind layer;
  Family family;
  std::string_view architecture;        ///< that we write
  std::string_view other_architecture;  ///< that we read too; "" for none
};

inline constexpr std::array<HfKind, 8> kHfKinds = {{
    {"delta_net", config::LayerKind::kDeltaNet, Family::kPlain,
     "DeltaNetForCausalLM", ""},
    {"gated_deltanet", config::LayerKind::kGdn, Family::kPlain,
     "GatedDeltaNetForCausalLM", ""},
    {"kda", config::LayerKind::kKda, Family::kPlain, "KDAForCausalLM", ""},
    {"osla_delta_net", config::LayerKind::kDeltaNet, Family::kOsla,
     "OSDNForCausalLM", "OSLAForCausalLM"},
    {"os_gated_deltanet", config::LayerKind::kGdn, Family::kOsla,
     "OSGDNForCausalLM", ""},
    {"os_kda", config::LayerKind::kKda, Family::kOsla, "OSKDAForCausalLM", ""},
    {"osdn_delta_net", config::LayerKind::kDeltaNet, Family::kOsdnDelta,
     "OsdnDeltaNetForCausalLM", ""},
    {"llama", config::LayerKind::kTransformer, Family::kLlama,
     "LlamaForCausalLM", ""},
}};

}  // namespace osdn::interchange
