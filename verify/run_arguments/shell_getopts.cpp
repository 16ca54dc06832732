#include "verify/run_arguments/shell_getopts.h"

namespace verify {

namespace {

/// Finds the option whose letter stands at a place.
FoundOption option_at(std::string_view letters, const std::vector<std::string>& arguments,
                      OptionPlace place) {
  const bool is_silent = letters.starts_with(':');
  const std::string& argument = arguments[place.index - 1];
  const char letter = argument[place.offset++];
  const std::string own(1, letter);
  const bool is_last = place.offset == argument.size();
  const OptionPlace behind = is_last ? OptionPlace{place.index + 1, 0} : place;
  const std::size_t known = letter == ':' ? std::string_view::npos : letters.find(letter);
  if (known == std::string_view::npos) {
    return {.is_there = true, .value = is_silent ? std::optional(own) : std::nullopt, .behind = behind};
  }
  const bool takes_value = letters.substr(known + 1).starts_with(':');
  if (!takes_value) return {.is_there = true, .name = own, .behind = behind};
  const OptionPlace next{place.index + 1, 0};
  if (!is_last)
    return {.is_there = true, .name = own, .value = argument.substr(place.offset), .behind = next};
  if (next.index <= arguments.size())
    return {.is_there = true, .name = own, .value = arguments[next.index - 1], .behind = {next.index + 1, 0}};
  return {.is_there = true,
          .name = is_silent ? ":" : "?",
          .value = is_silent ? std::optional(own) : std::nullopt,
          .behind = next};
}

}  // namespace

FoundOption next_option(std::string_view letters, const std::vector<std::string>& arguments,
                        OptionPlace place) {
  const bool is_past = place.index == 0 || place.index > arguments.size();
  if (!is_past && place.offset > 0 && place.offset < arguments[place.index - 1].size())
    return option_at(letters, arguments, place);
  place.offset = 0;
  if (is_past) return {.behind = place};
  const std::string& argument = arguments[place.index - 1];
  if (argument == "--") return {.behind = {place.index + 1, 0}};
  if (argument.size() < 2 || argument.front() != '-') return {.behind = place};
  return option_at(letters, arguments, {place.index, 1});
}

}  // namespace verify
