#include "verify/vocabulary/nearest_name.h"

#include <algorithm>
#include <boost/algorithm/string.hpp>
#include <cstddef>
#include <limits>
#include <optional>

namespace verify {

namespace {

constexpr std::size_t kFar = std::numeric_limits<std::size_t>::max() / 2;

/// Returns the least cost of making one list of another by changes of elements, and by leaving some out.
template <typename List, typename Cost, typename Change>
std::size_t least_cost(const List& a, const List& b, const Cost& cost, const Change& change) {
  std::vector<std::size_t> row(b.size() + 1, 0);
  for (std::size_t j = 0; j < b.size(); ++j) row[j + 1] = std::min(row[j] + cost(b[j]), kFar);
  for (const auto& element : a) {
    std::size_t diagonal = row[0];
    row[0] = std::min(row[0] + cost(element), kFar);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = diagonal + change(element, b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({changed, row[j] + cost(element), row[j - 1] + cost(b[j - 1]), kFar});
    }
  }
  return row.back();
}

std::size_t edit_distance(const std::string& a, const std::string& b) {
  return least_cost(
      a, b, [](char) { return std::size_t{1}; },
      [](char x, char y) { return std::size_t{x == y ? 0U : 1U}; });
}

using Words = std::vector<std::string>;

Words words_of(const std::string& name) {
  Words words;
  return boost::split(words, name, boost::is_any_of("-_/."));
}

bool is_negation(const std::string& word) {
  return word == "no" || word == "not" || word == "disable" || word == "without";
}

/// Returns how many letters of a word are misspelt; nothing if it is another word.
std::optional<std::size_t> misspelt(const std::string& word, const std::string& meant) {
  const std::size_t distance = edit_distance(word, meant);
  if (distance == 0) return 0;
  if (is_negation(word) || is_negation(meant)) return std::nullopt;
  const std::size_t most = std::max<std::size_t>(std::min(word.size(), meant.size()) / 3, 1);
  return distance <= most ? std::optional(distance) : std::nullopt;
}

/// Returns how many letters have to change, if whole words may be missing or added.
std::size_t distance_in_words(const Words& name, const Words& candidate) {
  return least_cost(
      name, candidate, [](const std::string& word) { return is_negation(word) ? kFar : word.size() + 1; },
      [](const std::string& word, const std::string& meant) { return misspelt(word, meant).value_or(kFar); });
}

std::size_t distance(const std::string& name, const std::string& candidate) {
  const Words words = words_of(name), meant = words_of(candidate);
  const std::size_t by_words = distance_in_words(words, meant);
  // Two words may be written as one, or one word as two.
  constexpr std::size_t kMostSeparators = 1;
  const bool is_parted_otherwise = words.size() != meant.size();
  if (is_parted_otherwise && edit_distance(name, candidate) <= kMostSeparators) return kMostSeparators;
  return by_words;
}

/// Whether the words of a name are the first ones of another, of which the last may be cut short.
bool begins(const Words& name, const Words& candidate) {
  constexpr std::size_t kLeastLetters = 3;
  if (name.size() > candidate.size() || name.back().size() < kLeastLetters) return false;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const bool is_cut = i + 1 == name.size() && candidate[i].starts_with(name[i]);
    if (!is_cut && !misspelt(name[i], candidate[i])) return false;
  }
  return true;
}

}  // namespace

std::string nearest_name(const std::string& name, const std::vector<std::string>& candidates) {
  std::string nearest;
  std::size_t smallest = name.size() / 2 + 1;  // most of the name is right
  if (name.size() > 256) return nearest;
  for (const std::string& candidate : candidates) {
    const std::size_t own =
        candidate == name
            ? kFar
            : std::max<std::size_t>(1, distance(boost::to_lower_copy(name), boost::to_lower_copy(candidate)));
    if (own < smallest) {
      smallest = own;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string nearest_or_begun(const std::string& name, const std::vector<std::string>& candidates) {
  std::string found = nearest_name(name, candidates);
  if (!found.empty() || name.size() > 256) return found;
  const Words words = words_of(boost::to_lower_copy(name));
  for (const std::string& candidate : candidates) {
    if (candidate == name || !begins(words, words_of(boost::to_lower_copy(candidate)))) continue;
    if (!found.empty()) return "";
    found = candidate;
  }
  return found;
}

}  // namespace verify
