#include "verify/vocabulary/layer_pattern.h"

#include <algorithm>
#include <boost/algorithm/string.hpp>
#include <charconv>
#include <cstddef>
#include <exception>
#include <fmt/format.h>
#include <map>
#include <regex>
#include <utility>

#include "verify/output/json.h"
#include "verify/output/refusal_table.h"
#include "verify/run_arguments/run_arguments.h"

namespace verify {

namespace {

using Entries = std::vector<std::int64_t>;

constexpr std::size_t kMostEntries = 1 << 20;
constexpr auto kTooOften = static_cast<std::int64_t>(kMostEntries) + 1;
constexpr int kDeepest = 100;  // brackets inside brackets

[[noreturn]] void refuse_pattern(const char* option, const std::string& text, const std::string& problem) {
  refuse_by("layer_pattern", option, text.substr(0, 100), problem);
}

/// Reads sums of repeated lists: sum = product {+ product}, product = {number *} list {* times},
/// list = [ {number {, number}} ] or ( sum ), times = number or ( times {+ times} ).
class PatternReader {
 public:
  PatternReader(const char* option, const std::string& text) : option_(option), text_(text) {
    for (const char c : text)
      if (c != ' ' && c != '\t') rest_ += c;
  }

  Entries whole() {
    Entries entries = sum(0);
    if (at_ != rest_.size()) refuse_here();
    if (entries.empty()) refuse_pattern(option_, text_, "it has no entries");
    return entries;
  }

 private:
  [[noreturn]] void refuse_here() const {
    refuse_pattern(option_, text_,
                   at_ < rest_.size() ? fmt::format("'{}' is unexpected", rest_[at_]) : "it ends too early");
  }
  bool skips(char c) {
    if (at_ >= rest_.size() || rest_[at_] != c) return false;
    ++at_;
    return true;
  }
  void require(char c) {
    if (!skips(c)) refuse_here();
  }
  std::int64_t number() {
    std::int64_t value = 0;
    const char* begin = rest_.data() + at_;
    const auto [end, error] = std::from_chars(begin, rest_.data() + rest_.size(), value);
    if (error != std::errc()) refuse_here();
    at_ += static_cast<std::size_t>(end - begin);
    return value;
  }
  Entries sum(int depth) {
    Entries entries = product(depth);
    while (skips('+')) append(product(depth), 1, entries);
    return entries;
  }
  bool is_at_number() const { return at_ < rest_.size() && rest_[at_] >= '0' && rest_[at_] <= '9'; }
  std::int64_t times(int depth) {
    if (depth > kDeepest) refuse_pattern(option_, text_, "its brackets are nested too deeply");
    if (!skips('(')) return std::min(number(), kTooOften);
    std::int64_t all = times(depth + 1);
    while (skips('+')) all = std::min(all + times(depth + 1), kTooOften);
    require(')');
    return all;
  }
  Entries product(int depth) {
    std::vector<std::int64_t> before;
    while (is_at_number()) {
      before.push_back(number());
      require('*');
    }
    Entries entries = list(depth);
    for (const std::int64_t count : before) append(std::exchange(entries, {}), count, entries);
    while (skips('*')) append(std::exchange(entries, {}), times(depth), entries);
    return entries;
  }
  Entries list(int depth) {
    if (depth > kDeepest) refuse_pattern(option_, text_, "its brackets are nested too deeply");
    if (skips('(')) {
      Entries entries = sum(depth + 1);
      require(')');
      return entries;
    }
    require('[');
    if (skips(']')) return {};
    Entries entries = {number()};
    while (skips(',')) entries.push_back(number());
    require(']');
    return entries;
  }
  void append(const Entries& more, std::int64_t times, Entries& entries) const {
    const auto room = static_cast<std::int64_t>(kMostEntries);
    if (times > room ||
        entries.size() + more.size() * static_cast<std::size_t>(std::max<std::int64_t>(times, 0)) >
            kMostEntries)
      refuse_pattern(option_, text_, fmt::format("it has more than {} entries", kMostEntries));
    for (std::int64_t i = 0; i < times; ++i) entries.insert(entries.end(), more.begin(), more.end());
  }

  const char* option_;
  const std::string& text_;
  std::string rest_;
  std::size_t at_ = 0;
};

}  // namespace

sim::LayerPattern parse_layer_pattern(const std::string& text, const char* option) {
  if (text.find('[') != std::string::npos)
    return {.every = 0, .entries = PatternReader(option, text).whole()};
  std::int64_t every = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), every);
  if (error != std::errc() || end != text.data() + text.size() || every < 1)
    refuse_pattern(option, text, "it is neither a number above 0 nor a list");
  return {.every = every, .entries = {}};
}

std::int64_t HybridPattern::layers() const {
  std::int64_t count = 0;
  for (const std::string& segment : segments) count += std::ssize(segment);
  return count;
}

HybridPattern parse_hybrid_pattern(const std::string& text) {
  if (text.empty()) return {};
  HybridPattern pattern;
  boost::split(pattern.predictions, text, boost::is_any_of("/"));
  boost::split(pattern.segments, pattern.predictions.front(), boost::is_any_of("|"));
  pattern.predictions.erase(pattern.predictions.begin());
  return pattern;
}

namespace {

[[noreturn]] void refuse_layout_list(const std::string& given) {
  refuse_by("layout_syntax", "--pipeline-model-parallel-layout", given);
}

char layer_letter(const Json& name) {
  static const std::map<std::string, char> kLetters = {
      {"embedding", 'E'}, {"decoder", 't'}, {"mtp", 'm'}, {"loss", 'L'}};
  if (!name.is_text()) refuse_layout_list(fmt::format("{} is not a layer name", name.dump()));
  const std::string word = boost::to_lower_copy(boost::trim_copy(name.text()));
  const auto letter = kLetters.find(word);
  if (letter == kLetters.end()) refuse_layout_list(fmt::format("there is no layer '{}'", word));
  return letter->second;
}

}  // namespace

std::string layout_string(const std::string& text) {
  const std::size_t start = text.find_first_not_of(' ');
  if (start == std::string::npos || text[start] != '[') return text;
  Json stages;
  try {
    stages = parse_json(text);
  } catch (const std::exception& error) {
    refuse_layout_list(error.what());
  }
  std::string layout;
  for (const Json& stage : stages.elements()) {
    if (!stage.is_array()) refuse_layout_list(fmt::format("the stage {} is not a list", stage.dump()));
    for (const Json& name : stage.elements()) layout += layer_letter(name);
    layout += '|';
  }
  if (layout.empty()) refuse_layout_list("the list is empty");
  layout.pop_back();
  return layout;
}

namespace {

/// Returns L, and -1 where the pair is no window.
std::int64_t size_of(const std::string& text) {
  const std::optional<WindowPair> pair = window_pair(text);
  if (pair && (pair->left >= 0 || (pair->left == -1 && (pair->right == -1 || pair->right == 0))))
    return pair->left;
  refuse_by("window_size", "--window-size", text.substr(0, 100));
}

void require_entries(const sim::LayerPattern& pattern, std::optional<std::int64_t> layers) {
  const auto entries = std::ssize(pattern.entries);
  if (entries != 0 && layers && entries < *layers)
    refuse_by("window_layers", "--window-attn-skip-freq", entries, *layers);
}

}  // namespace

/// Reads "L,R", "(L,R)" or "[L,R]".
std::optional<WindowPair> window_pair(std::string_view text) {
  constexpr std::size_t kMostLetters = 100;
  static const std::regex kPair(R"([(\[]* *(-?[0-9]+) *, *(-?[0-9]+) *[)\]]*)");
  std::cmatch match;
  if (text.size() > kMostLetters || !std::regex_match(text.begin(), text.end(), match, kPair))
    return std::nullopt;
  const auto left = whole_number(match.str(1)), right = whole_number(match.str(2));
  return left && right ? std::optional(WindowPair{*left, *right}) : std::nullopt;
}

sim::AttentionWindow attention_window(std::optional<std::string> size, std::optional<std::string> layers,
                                      std::optional<std::int64_t> num_layers) {
  sim::AttentionWindow window;
  if (layers) window.attn_skip_freq = parse_layer_pattern(*layers, "--window-attn-skip-freq");
  if (size) window.size = size_of(*size);
  if (window.size < 0) return {};
  if (window.attn_skip_freq) require_entries(*window.attn_skip_freq, num_layers);
  return window;
}

}  // namespace verify
