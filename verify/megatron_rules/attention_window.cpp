#include "verify/megatron_rules/attention_window.h"

#include <regex>
#include <string>
#include <string_view>

#include "verify/output/refusal_table.h"
#include "verify/run_arguments/run_arguments.h"
#include "verify/vocabulary/layer_pattern.h"

namespace verify {

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
