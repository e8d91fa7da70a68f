#pragma once
// The scores of the LongBench subsets (Bai et al. 2023), text against text, 0
// to 1. Outputs and answers are UTF-8.

#include <span>
#include <string>
#include <string_view>

namespace osdn::eval {

/// F1 over multisets of words: lower case, ASCII punctuation deleted, the words
/// a, an and the deleted, split at white space. 0 without a common word.
double qa_f1(std::string_view output, std::string_view answer);

/// ROUGE-L as the Python package rouge 1.0.1 has it: sentences between full
/// stops, counts of distinct words, for each sentence of the answer the union
/// of its longest common subsequences with every sentence of the output;
/// 2pr / (p + r + 1e-8). An output or an answer without a sentence gives 0.
double rouge_l(std::string_view output, std::string_view answer);

/// 1 / n of the n classes that the output names if `answer` is one of them,
/// else 0. Classes that are a proper part of the answer's name do not count;
/// of two such in a row the second does, as in the original.
double classification_score(std::string_view output, std::string_view answer,
                            std::span<const std::string> classes);

/// The share of the integers in the output that equal the answer; 0 without
/// one.
double count_score(std::string_view output, std::string_view answer);

/// The same with the number after "Paragraph " of the answer. Throws Error
/// (kBadInput) for an answer that has none.
double retrieval_score(std::string_view output, std::string_view answer);

/// Similarity of the output's first line of code with the answer: 2M / (a + b)
/// in whole percents, M the total length of matching blocks (Ratcliff and
/// Obershelp, as Python's difflib finds them). The line is the first that holds
/// none of ` # //, after leading line ends; an empty one gives 0.
double code_similarity(std::string_view output, std::string_view answer);

}  // namespace osdn::eval
