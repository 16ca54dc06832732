#pragma once

/// The words that the value of an option may be, where the program knows them all: group kinds, cases,
/// properties, dtypes, planted programs and choices. Help and the completion of shells show them.

#include <string>
#include <vector>

#include "verify/cases/case_list.h"
#include "verify/vocabulary/option_vocabulary.h"

namespace verify {

/// Returns the words, among `cases` where the option names a case; empty where the value may be anything.
std::vector<std::string> known_values(const OptionInfo& option, const CaseList& cases);

/// Whether the value is the path of a file.
bool is_file(const OptionInfo& option);

/// Whether the value is a list with commas between its words.
bool is_list(const OptionInfo& option);

}  // namespace verify
