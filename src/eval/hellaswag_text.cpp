#include "hellaswag_text.h"

#include "osdn/eval/python_text.h"

namespace osdn::eval {
namespace {

/// re.sub(r"\[.*?\]", "", text): "." is not a line end.
std::string without_brackets(std::string_view text) {
  std::string out;
  for (std::size_t open = 0;
       (open = text.find('[')) != std::string_view::npos;) {
    const std::size_t close = text.find_first_of("]\n", open);
    const bool pair = close != std::string_view::npos && text[close] == ']';
    out += text.substr(0, pair ? open : open + 1);
    text.remove_prefix(pair ? close + 1 : open + 1);
  }
  return out + std::string(text);
}

}  // namespace

std::string first_upper_rest_lower(std::string_view text) {
  return upper_first(lower(text));
}

std::string hellaswag_text(std::string_view text) {
  return replace_all(
      without_brackets(replace_all(strip(text), " [title]", ". ")), "  ", " ");
}

}  // namespace osdn::eval
