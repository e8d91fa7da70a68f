#pragma once
// Text operations with Python 3's meaning, which published evaluation numbers
// depend on: white space is Unicode's, lengths count code points. Text is
// UTF-8; a byte that is not part of a well-formed sequence counts as one code
// point and is kept as it is.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace osdn::eval {

/// str.isspace of one code point, which is also what \s matches.
bool is_white_space(char32_t code_point);

/// \w of one code point: letters, digits and the underscore. Beyond ASCII
/// everything counts but the common punctuation, symbols and white space.
bool is_word_character(char32_t code_point);

/// The code points of a text; a byte that belongs to none becomes 0x110000 plus
/// its value, which no code point is.
std::u32string code_points(std::string_view text);

/// str.strip(), lstrip(), rstrip() without arguments.
std::string_view strip(std::string_view text);
std::string_view strip_left(std::string_view text);
std::string_view strip_right(std::string_view text);

/// str.strip(chars): `chars` is a set of code points.
std::string_view strip(std::string_view text, std::string_view chars);

/// str.split(): pieces between runs of white space, none of them empty.
std::vector<std::string_view> split_words(std::string_view text);

/// re.split(r"\s+", text): the same with the empty pieces at both ends; an
/// empty text is one empty piece.
std::vector<std::string_view> split_at_white_space(std::string_view text);

/// str.split(separator), with a separator that is not empty.
std::vector<std::string_view> split_at(std::string_view text,
                                       std::string_view separator);

/// str.replace(from, to): from the left, not overlapping. `from` is not empty.
std::string replace_all(std::string_view text, std::string_view from,
                        std::string_view to);

/// len(str): code points.
std::size_t code_point_length(std::string_view text);

/// text[begin:end] in code points; positions past the end mean the end.
std::string_view slice(std::string_view text, std::size_t begin,
                       std::size_t end);

/// str.lower() code point by code point (Unicode 14). Python's one rule that
/// looks at neighbours, the final sigma, is left out.
std::string lower(std::string_view text);

/// text[:1].upper() + text[1:]: the first code point becomes the lowest one
/// whose lower case it is; sharp s becomes SS.
std::string upper_first(std::string_view text);

/// re.search(re.escape(needle), text, re.IGNORECASE): where the first match
/// begins, in bytes. Code points match when their simple lower cases are equal
/// or are two spellings of one letter, as long s and s are. An empty needle
/// matches at 0.
std::optional<std::size_t> find_ignoring_case(std::string_view text,
                                              std::string_view needle);

/// text.lower().endswith(end.lower()).
bool ends_with_ignoring_case(std::string_view text, std::string_view end);

}  // namespace osdn::eval
