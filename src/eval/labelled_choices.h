#pragma once
// The layout of the ARC and OpenBookQA sets: choices with labels of their own.

#include "osdn/eval/multiple_choice.h"

namespace osdn::eval {

/// Choices and gold of {choices[], gold} where the row is so plain, else of
/// {choices{text[], label[]}, answerKey}. The right one is the position of
/// answerKey among the labels, which are letters in some rows and numbers in
/// others.
ChoiceDocument labelled_choices(const Row& row, std::string context,
                                bool plain);

}  // namespace osdn::eval
