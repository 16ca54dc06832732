#include "verify/run_arguments/shell_expression.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <memory>
#include <regex.h>

namespace verify {

namespace {

constexpr std::size_t kMostExpressionBytes = 200;
constexpr std::size_t kMostSearchedBytes = 1000;

/// Whether the time and the memory of an expression are bounded by the lengths of it and of the text. The
/// library compiles what stands before a + twice, so that one + behind another doubles it.
bool is_quick(const std::string& expression) {
  constexpr std::ptrdiff_t kMostDoubled = 8;
  if (std::ranges::count(expression, '+') > kMostDoubled) return false;
  for (std::size_t at = 0; at < expression.size(); ++at) {
    if (expression[at] == '{') return false;
    if (expression[at] != '\\') continue;
    ++at;
    if (at < expression.size() && std::isdigit(static_cast<unsigned char>(expression[at])) != 0) return false;
  }
  return true;
}

}  // namespace

std::optional<std::vector<std::string>> found_by_expression(const std::string& text,
                                                            const std::string& expression) {
  const bool is_short = text.size() <= kMostSearchedBytes && expression.size() <= kMostExpressionBytes;
  if (!is_short || !is_quick(expression) || text.find('\0') != std::string::npos) return std::nullopt;
  regex_t compiled;
  if (regcomp(&compiled, expression.c_str(), REG_EXTENDED) != 0) return std::nullopt;
  const std::unique_ptr<regex_t, void (*)(regex_t*)> owner(&compiled, regfree);
  std::vector<regmatch_t> matches(compiled.re_nsub + 1);
  const int result = regexec(&compiled, text.c_str(), matches.size(), matches.data(), 0);
  if (result == REG_NOMATCH) return std::vector<std::string>();
  if (result != 0) return std::nullopt;
  std::vector<std::string> found;
  for (const regmatch_t& match : matches) {
    const bool is_there = match.rm_so >= 0;
    found.push_back(is_there ? text.substr(static_cast<std::size_t>(match.rm_so),
                                           static_cast<std::size_t>(match.rm_eo - match.rm_so))
                             : "");
  }
  return found;
}

}  // namespace verify
