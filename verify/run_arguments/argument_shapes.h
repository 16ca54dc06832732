#pragma once

/// How many words Megatron's parser takes behind each of its arguments.
///
/// Shapes  Names are without leading dashes and with "-" in place of "_".
/// Exact   An argument whose shape is not known here is judged by nothing: a flag of an older version, or one
///         that a training script adds.
/// Source  The parser that megatron/training/arguments.py of Megatron Core 0.19.2 builds, and flags of older
///         versions that later ones have dropped.

#include <string_view>

namespace verify {

enum class ArgumentShape {
  unknown,
  flag,    // no word
  value,   // one word
  list,    // one word or more
  maybes,  // any number of words
};

ArgumentShape shape_of_argument(std::string_view name);

/// Whether the one word of an argument is a number. A few whole numbers that newer versions may read as
/// decimal ones, such as the rotary base, count as those.
enum class NumberKind { none, whole, decimal };

NumberKind number_kind_of_argument(std::string_view name);

/// Whether the words of a list are numbers or names, so that a comma in one is a mistake.
bool has_plain_words(std::string_view name);

/// Whether Megatron's parser knows a name, written without its dashes, with the "_" that it has.
bool is_known_with_underscores(std::string_view written);

}  // namespace verify
