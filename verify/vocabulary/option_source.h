#pragma once

/// What the readers of the command line and of scenario files share: Boost's description of the
/// vocabulary, the refusal of an unknown name (with the nearest known one as a hint), and the collection
/// of values into Settings.
///
/// Errors  unknown_option: a name that is not in the vocabulary; missing_value: an option followed by another
///         option in place of its value; given_twice: an option that may not be repeated, given again.

#include <boost/program_options/options_description.hpp>
#include <string>
#include <vector>

#include "verify/vocabulary/settings.h"

namespace verify {

boost::program_options::options_description describe_options();

/// `where` is appended to "there is no such option" in the message: "" or " in FILE". `help` is the call
/// that explains the options.
[[noreturn]] void refuse_unknown_option(const std::string& option, const std::string& where,
                                        const std::string& help);

/// Adds the values of an option to those of its source, which `where` names in refusals, for example " on the
/// command line". Only options of the kinds `texts` and `words` may be repeated.
void add_given(const std::string& name, const std::vector<std::string>& values, const std::string& where,
               Settings& settings);

}  // namespace verify
