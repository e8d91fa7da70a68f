#include "osdn/eval/python_text.h"

#include <algorithm>
#include <array>
#include <utility>

#include "lower_case_runs.h"

namespace osdn::eval {

namespace {

struct Decoded {
  char32_t code_point;
  std::size_t bytes;
};

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

// The code point at `at`. Bytes that do not form one are taken singly and get a
// value that nothing in this file treats specially.
Decoded decode(std::string_view text, std::size_t at) {
  constexpr char32_t kIllFormed = 0xDC00;
  const auto lead = static_cast<unsigned char>(text[at]);
  if (lead < 0x80) {
    return {lead, 1};
  }
  std::size_t bytes = 0;
  char32_t code_point = 0;
  if (lead >= 0xC2 && lead < 0xE0) {
    bytes = 2;
    code_point = lead & 0x1F;
  } else if (lead >= 0xE0 && lead < 0xF0) {
    bytes = 3;
    code_point = lead & 0x0F;
  } else if (lead >= 0xF0 && lead < 0xF5) {
    bytes = 4;
    code_point = lead & 0x07;
  }
  if (bytes == 0 || at + bytes > text.size()) {
    return {kIllFormed, 1};
  }
  for (std::size_t i = 1; i < bytes; ++i) {
    if (!is_continuation(text[at + i])) {
      return {kIllFormed, 1};
    }
    code_point = code_point << 6 | (static_cast<char32_t>(text[at + i]) & 0x3F);
  }
  return {code_point, bytes};
}

// Where the code point before `end` begins.
std::size_t previous(std::string_view text, std::size_t end) {
  std::size_t at = end - 1;
  while (at > 0 && end - at < 4 && is_continuation(text[at])) {
    --at;
  }
  return at + decode(text, at).bytes == end ? at : end - 1;
}

void encode(char32_t code_point, std::string& out) {
  if (code_point < 0x80) {
    out += static_cast<char>(code_point);
  } else if (code_point < 0x800) {
    out += static_cast<char>(0xC0 | code_point >> 6);
    out += static_cast<char>(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    out += static_cast<char>(0xE0 | code_point >> 12);
    out += static_cast<char>(0x80 | (code_point >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (code_point & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | code_point >> 18);
    out += static_cast<char>(0x80 | (code_point >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (code_point >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (code_point & 0x3F));
  }
}

template <typename Drop>
std::string_view strip_left_if(std::string_view text, const Drop& drop) {
  while (!text.empty()) {
    const Decoded first = decode(text, 0);
    if (!drop(first.code_point, text.substr(0, first.bytes))) {
      break;
    }
    text.remove_prefix(first.bytes);
  }
  return text;
}

template <typename Drop>
std::string_view strip_right_if(std::string_view text, const Drop& drop) {
  while (!text.empty()) {
    const std::size_t last = previous(text, text.size());
    if (!drop(decode(text, last).code_point, text.substr(last))) {
      break;
    }
    text = text.substr(0, last);
  }
  return text;
}

bool drop_white_space(char32_t code_point, std::string_view) {
  return is_white_space(code_point);
}

std::optional<char32_t> lower_case_of(char32_t code_point) {
  // The first run that ends at or after the code point.
  const auto* const run =
      std::lower_bound(kLowerCaseRuns.begin(), kLowerCaseRuns.end(), code_point,
                       [](const LowerCaseRun& candidate, char32_t value) {
                         return candidate.last < value;
                       });
  if (run == kLowerCaseRuns.end() || code_point < run->first ||
      (code_point - run->first) % static_cast<char32_t>(run->stride) != 0) {
    return std::nullopt;
  }
  return static_cast<char32_t>(static_cast<std::int32_t>(code_point) +
                               run->delta);
}

// Lower-case letters with one upper case in common: the second counts as the
// first when case is ignored.
constexpr std::array<std::pair<char32_t, char32_t>, 26> kSameLetter = {
    {{U'i', 0x131},    {U's', 0x17F},   {0x3BC, 0xB5},   {0x3B9, 0x345},
     {0x3B9, 0x1FBE},  {0x390, 0x1FD3}, {0x3B0, 0x1FE3}, {0x3B2, 0x3D0},
     {0x3B5, 0x3F5},   {0x3B8, 0x3D1},  {0x3BA, 0x3F0},  {0x3C0, 0x3D6},
     {0x3C1, 0x3F1},   {0x3C3, 0x3C2},  {0x3C6, 0x3D5},  {0x432, 0x1C80},
     {0x434, 0x1C81},  {0x43E, 0x1C82}, {0x441, 0x1C83}, {0x442, 0x1C84},
     {0x442, 0x1C85},  {0x44A, 0x1C86}, {0x463, 0x1C87}, {0x1E61, 0x1E9B},
     {0xA64B, 0x1C88}, {0xFB06, 0xFB05}}};

// The code point at `at`, or what stands for a stray byte.
char32_t value_at(std::string_view text, std::size_t at,
                  const Decoded& decoded) {
  const auto byte = static_cast<unsigned char>(text[at]);
  return decoded.bytes == 1 && byte >= 0x80 ? 0x110000 + char32_t{byte}
                                            : decoded.code_point;
}

// What a code point is compared by when case is ignored.
char32_t fold(char32_t code_point) {
  if (code_point == 0x130) return U'i';
  const char32_t lowered = lower_case_of(code_point).value_or(code_point);
  for (const auto& [letter, twin] : kSameLetter) {
    if (lowered == twin) return letter;
  }
  return lowered;
}

struct Folded {
  std::vector<char32_t> letters;
  std::vector<std::size_t> begins;  // bytes
};

Folded fold_all(std::string_view text) {
  Folded out;
  for (std::size_t at = 0; at < text.size();) {
    const Decoded next = decode(text, at);
    out.letters.push_back(fold(value_at(text, at, next)));
    out.begins.push_back(at);
    at += next.bytes;
  }
  return out;
}

}  // namespace

bool is_word_character(char32_t c) {
  if (c < 0x80) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
           (c >= 'a' && c <= 'z') || c == '_';
  }
  if (c < 0xC0) {
    return c == 0xAA || c == 0xB2 || c == 0xB3 || c == 0xB5 || c == 0xB9 ||
           c == 0xBA || (c >= 0xBC && c <= 0xBE);
  }
  const bool symbol =
      c == 0xD7 || c == 0xF7 || c == 0x1680 ||
      (c >= 0x2000 && c <= 0x206F && c != 0x203F && c != 0x2040 &&
       c != 0x2054) ||
      (c >= 0x20A0 && c <= 0x20CF) || (c >= 0x2190 && c <= 0x245F) ||
      (c >= 0x2500 && c <= 0x2BFF && !(c >= 0x2776 && c <= 0x2793)) ||
      (c >= 0x3000 && c <= 0x3004) || (c >= 0x3008 && c <= 0x3020) ||
      c == 0xFEFF || c == 0xFFFD || c > 0x10FFFF;
  return !symbol;
}

std::u32string code_points(std::string_view text) {
  std::u32string out;
  for (std::size_t at = 0; at < text.size();) {
    const Decoded next = decode(text, at);
    out += value_at(text, at, next);
    at += next.bytes;
  }
  return out;
}

bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 ||
         c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
         c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

std::string_view strip_left(std::string_view text) {
  return strip_left_if(text, drop_white_space);
}

std::string_view strip_right(std::string_view text) {
  return strip_right_if(text, drop_white_space);
}

std::string_view strip(std::string_view text) {
  return strip_right(strip_left(text));
}

std::string_view strip(std::string_view text, std::string_view chars) {
  const auto is_one_of = [chars](char32_t, std::string_view bytes) {
    for (std::size_t at = 0; at < chars.size();) {
      const std::size_t count = decode(chars, at).bytes;
      if (chars.substr(at, count) == bytes) {
        return true;
      }
      at += count;
    }
    return false;
  };
  return strip_right_if(strip_left_if(text, is_one_of), is_one_of);
}

std::vector<std::string_view> split_at_white_space(std::string_view text) {
  std::vector<std::string_view> pieces;
  std::size_t piece = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t run = at;
    while (at < text.size()) {
      const Decoded next = decode(text, at);
      if (!is_white_space(next.code_point)) {
        break;
      }
      at += next.bytes;
    }
    if (at > run) {
      pieces.push_back(text.substr(piece, run - piece));
      piece = at;
    } else {
      at += decode(text, at).bytes;
    }
  }
  pieces.push_back(text.substr(piece));
  return pieces;
}

std::vector<std::string_view> split_words(std::string_view text) {
  std::vector<std::string_view> pieces = split_at_white_space(text);
  std::erase_if(pieces, [](std::string_view piece) { return piece.empty(); });
  return pieces;
}

std::vector<std::string_view> split_at(std::string_view text,
                                       std::string_view separator) {
  std::vector<std::string_view> pieces;
  std::size_t piece = 0;
  for (std::size_t at = 0;
       (at = text.find(separator, piece)) != std::string_view::npos;
       piece = at + separator.size()) {
    pieces.push_back(text.substr(piece, at - piece));
  }
  pieces.push_back(text.substr(piece));
  return pieces;
}

std::string replace_all(std::string_view text, std::string_view from,
                        std::string_view to) {
  std::string out;
  out.reserve(text.size());
  bool first = true;
  for (const std::string_view piece : split_at(text, from)) {
    out += first ? std::string_view() : to;
    out += piece;
    first = false;
  }
  return out;
}

std::size_t code_point_length(std::string_view text) {
  std::size_t length = 0;
  for (std::size_t at = 0; at < text.size(); at += decode(text, at).bytes) {
    ++length;
  }
  return length;
}

std::string_view slice(std::string_view text, std::size_t begin,
                       std::size_t end) {
  std::size_t first = text.size();
  std::size_t index = 0;
  std::size_t at = 0;
  for (; at < text.size() && index < end; ++index) {
    if (index == begin) {
      first = at;
    }
    at += decode(text, at).bytes;
  }
  return first < at ? text.substr(first, at - first) : std::string_view();
}

std::string lower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const Decoded next = decode(text, at);
    if (next.code_point == 0x130) {
      out += "i\u0307";  // the one code point that becomes two
    } else if (const auto mapped = lower_case_of(next.code_point)) {
      encode(*mapped, out);
    } else {
      out += text.substr(at, next.bytes);
    }
    at += next.bytes;
  }
  return out;
}

std::string upper_first(std::string_view text) {
  if (text.empty()) return "";
  const Decoded first = decode(text, 0);
  const std::string rest(text.substr(first.bytes));
  if (first.code_point == 0xDF) return "SS" + rest;
  for (const LowerCaseRun& run : kLowerCaseRuns) {
    const auto upper = static_cast<char32_t>(
        static_cast<std::int32_t>(first.code_point) - run.delta);
    if (upper >= run.first && upper <= run.last &&
        lower_case_of(upper) == first.code_point) {
      std::string out;
      encode(upper, out);
      return out + rest;
    }
  }
  return std::string(text);
}

std::optional<std::size_t> find_ignoring_case(std::string_view text,
                                              std::string_view needle) {
  const Folded in = fold_all(text);
  const Folded sought = fold_all(needle);
  const auto found = std::search(in.letters.begin(), in.letters.end(),
                                 sought.letters.begin(), sought.letters.end());
  if (sought.letters.empty()) return 0;
  if (found == in.letters.end()) return std::nullopt;
  return in.begins[static_cast<std::size_t>(found - in.letters.begin())];
}

bool ends_with_ignoring_case(std::string_view text, std::string_view end) {
  return lower(text).ends_with(lower(end));
}

}  // namespace osdn::eval
