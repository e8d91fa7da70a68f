#pragma once
// The rows of the key table for the model section.

#include <vector>

#include "key_table.h"

namespace osdn::config {

std::vector<Key> model_keys();

}  // namespace osdn::config
