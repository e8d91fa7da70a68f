#pragma once
// HellaSwag's texts as lm-evaluation-harness reads them.

#include <string>
#include <string_view>

namespace osdn::eval {

/// str.capitalize(): the first character in upper case, all others in lower
/// case.
std::string first_upper_rest_lower(std::string_view text);

/// Strips; " [title]" becomes ". "; every shortest "[...]" goes; two spaces
/// become one, in one pass. A space that this leaves at an end stays.
std::string hellaswag_text(std::string_view text);

}  // namespace osdn::eval
