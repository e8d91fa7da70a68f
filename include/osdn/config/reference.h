#pragma once
// The reference of the configuration, made from the same table as the reader.

#include <string>
#include <vector>

namespace osdn::config {

struct KeyInfo {
  std::string path;     ///< "model.num_heads", as --set takes it
  std::string pointer;  ///< "/model/num_heads"
  std::string allowed;
  std::string initial;    ///< what it is when it is not given
  std::string condition;  ///< when it has an effect; "" for always
  std::string help;
};

/// Every key there is.
std::vector<KeyInfo> known_keys();

/// docs/configuration.md.
std::string reference_markdown();

}  // namespace osdn::config
