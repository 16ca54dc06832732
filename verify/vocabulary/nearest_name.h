#pragma once

/// Finds the candidate that a misspelt name may have meant, by edit distance. The result is empty when none
/// is close, because a hint that misleads is worse than none.
///
/// Exact   Names are compared word by word; "-", "_", "/" and "." separate words. A misspelling changes one
///         letter of a word, or up to a third of its letters. It may leave out or add whole words, but not
///         "no", "not", "disable" and "without", which turn a name into its opposite. A word that is another
///         one altogether ("use" for "no", "save" for "case") is not a misspelling. The name itself is no
///         hint.

#include <functional>
#include <string>
#include <vector>

namespace verify {

/// Returns the names of the items of a table: their members `name`, or what `name_of` gives.
template <typename Items, typename NameOf>
std::vector<std::string> names_of(const Items& items, const NameOf& name_of) {
  std::vector<std::string> names;
  for (const auto& item : items) names.emplace_back(std::invoke(name_of, item));
  return names;
}
template <typename Items>
std::vector<std::string> names_of(const Items& items) {
  return names_of(items, [](const auto& item) { return item.name; });
}

std::string nearest_name(const std::string& name, const std::vector<std::string>& candidates);

/// Returns the nearest name, or else the only one of which `name` is the beginning, perhaps misspelt:
/// "row_paralel" of "row_parallel_linear", and "gpu-mem" of "gpu-memory".
std::string nearest_or_begun(const std::string& name, const std::vector<std::string>& candidates);

}  // namespace verify
