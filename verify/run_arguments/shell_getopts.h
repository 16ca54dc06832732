#pragma once

/// The options that `getopts` finds in the arguments of a script or a function, one by one.
///
/// Shapes  Options are single letters behind one dash: -t 4, -t4, and -bt4 where b has no value. The letters
///         are those of `getopts`: one with a ':' behind it has a value, and a ':' before all of them keeps
///         `getopts` silent about mistakes.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace verify {

struct OptionPlace {
  std::size_t index = 1;   // OPTIND: the argument that is read next, from 1
  std::size_t offset = 0;  // inside of an argument with several letters; 0: at its begin
};

struct FoundOption {
  bool is_there = false;  // there is one, known or not
  std::string name = "?";
  std::optional<std::string> value;  // OPTARG; none: it has none
  OptionPlace behind;
};

FoundOption next_option(std::string_view letters, const std::vector<std::string>& arguments,
                        OptionPlace place);

}  // namespace verify
