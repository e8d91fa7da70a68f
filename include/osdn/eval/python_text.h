#pragma once
// Text operations with Python 3's meaning, which published evaluation numbers
// depend on: white space is Unicode's, lengths count code points. Text is
// UTF-8; a byte that is not part of a well-formed sequence counts as one code
// point and is kept as it is.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace osdn::eval {

/// str.isspace of one code point, which is also what \s matches.
bool is_white_space(char32_t code_point);

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

}  // namespace osdn::eval
