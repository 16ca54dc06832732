#include "verify/vocabulary/nearest_name.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <limits>
#include <numeric>
#include <optional>
#include <string_view>

namespace verify {

namespace {

std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({substituted, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

using Words = std::vector<std::string>;

Words words_of(const std::string& name) {
  Words words(1);
  for (const char letter : name) {
    if (std::string_view("-_/.").find(letter) != std::string_view::npos) {
      words.emplace_back();
    } else {
      words.back() += letter;
    }
  }
  return words;
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

constexpr std::size_t kFar = std::numeric_limits<std::size_t>::max() / 2;

/// Returns how many letters have to change, if whole words may be missing or added.
std::size_t distance_in_words(const Words& name, const Words& candidate) {
  // This is the edit distance with words in place of letters.
  const auto cost_of = [](const std::string& word) { return is_negation(word) ? kFar : word.size() + 1; };
  std::vector<std::size_t> row(candidate.size() + 1, 0);
  for (std::size_t j = 0; j < candidate.size(); ++j)
    row[j + 1] = std::min(row[j] + cost_of(candidate[j]), kFar);
  for (const std::string& word : name) {
    std::size_t diagonal = row[0];
    row[0] = std::min(row[0] + cost_of(word), kFar);
    for (std::size_t j = 1; j <= candidate.size(); ++j) {
      const std::size_t changed = diagonal + misspelt(word, candidate[j - 1]).value_or(kFar);
      diagonal = row[j];
      row[j] = std::min({changed, row[j] + cost_of(word), row[j - 1] + cost_of(candidate[j - 1]), kFar});
    }
  }
  return row.back();
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

std::string in_small_letters(std::string word) {
  for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return word;
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
            : std::max<std::size_t>(1, distance(in_small_letters(name), in_small_letters(candidate)));
    if (own < smallest) {
      smallest = own;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace verify
