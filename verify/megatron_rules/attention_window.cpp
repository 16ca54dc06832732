#include "verify/megatron_rules/attention_window.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string>
#include <string_view>

#include "sim/base/error.h"
#include "verify/output/phrases.h"
#include "verify/vocabulary/settings.h"

namespace verify {

namespace {

constexpr const char* kWindowSize = "window-size";
constexpr const char* kWindowLayers = "window-attn-skip-freq";

/// Reads the next whole number. Returns nothing where there is none.
std::optional<std::int64_t> next_number(std::string_view& rest) {
  while (rest.starts_with(' ')) rest.remove_prefix(1);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (error != std::errc()) return std::nullopt;
  rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  while (rest.starts_with(' ')) rest.remove_prefix(1);
  return value;
}

struct Pair {
  std::int64_t left, right;
};
/// Reads "L,R", "(L,R)" or "[L,R]".
std::optional<Pair> pair_in(const std::string& text) {
  std::string_view rest = text;
  while (rest.starts_with('(') || rest.starts_with('[')) rest.remove_prefix(1);
  while (rest.ends_with(')') || rest.ends_with(']')) rest.remove_suffix(1);
  const std::optional<std::int64_t> left = next_number(rest);
  if (!left || !rest.starts_with(',')) return std::nullopt;
  rest.remove_prefix(1);
  const std::optional<std::int64_t> right = next_number(rest);
  if (!right || !rest.empty()) return std::nullopt;
  return Pair{*left, *right};
}

/// Returns L, and -1 where the pair is no window.
std::int64_t size_of(const std::string& text) {
  const std::optional<Pair> pair = pair_in(text);
  if (pair && (pair->left >= 0 || (pair->left == -1 && (pair->right == -1 || pair->right == 0))))
    return pair->left;
  sim::refuse({.code = "window_size",
               .option = fmt::format("--{}", kWindowSize),
               .numbers = fmt::format("'{}'", text.substr(0, 100)),
               .rule = "the value is a pair L,R; with a causal mask L is at least 0, or the pair is -1,0",
               .hint = fmt::format("--{} 128,0", kWindowSize)});
}

void require_entries(const LayerPattern& pattern, std::optional<std::int64_t> layers) {
  const auto entries = std::ssize(pattern.entries);
  if (entries == 0 || !layers || entries >= *layers) return;
  sim::refuse({.code = "window_layers",
               .option = fmt::format("--{}", kWindowLayers),
               .numbers = fmt::format("{} entries for {} layers", entries, *layers),
               .rule = "a list says of each layer whether it has the window",
               .hint = fmt::format("a list of {} entries, or a number", *layers)});
}

/// Whether Megatron's own attention takes its fused softmax, whose mask is causal without a window.
bool is_softmax_fused(const RunValues& run) {
  constexpr std::int64_t kMostKeys = 4096;
  if (!run.flag("bf16") && !run.flag("fp16")) return false;
  const std::int64_t keys = run.number("seq-length").value_or(0);
  const std::int64_t heads = run.number("num-attention-heads").value_or(0) /
                             std::max<std::int64_t>(1, run.number("tensor-model-parallel-size").value_or(1));
  const std::int64_t rows = heads * run.number("micro-batch-size").value_or(1);
  const std::int64_t of_a_block = keys <= 128 ? 8 : 4;  // rows that the kernel takes at once
  return !run.flag("no-masked-softmax-fusion") && run.text("softmax-type", "vanilla") == "vanilla" &&
         keys > 16 && keys <= kMostKeys && keys % 4 == 0 && rows % of_a_block == 0;
}

}  // namespace

bool AttentionWindow::is_in(std::int64_t layer) const {
  if (size < 0) return false;
  if (!pattern) return true;
  if (pattern->entries.empty()) return (layer + 1) % pattern->every != 0;
  return layer < std::ssize(pattern->entries) && pattern->entries[static_cast<std::size_t>(layer)] != 0;
}

AttentionWindow attention_window(const Settings& settings) {
  AttentionWindow window;
  if (settings.has(kWindowLayers))
    window.pattern = parse_layer_pattern(settings.text(kWindowLayers, ""), "--window-attn-skip-freq");
  if (settings.has(kWindowSize)) window.size = size_of(settings.text(kWindowSize, ""));
  if (window.size < 0) return {};
  if (window.pattern) require_entries(*window.pattern, settings.number("num-layers"));
  return window;
}

std::vector<sim::Warning> window_warnings(const RunValues& run) {
  const std::optional<Pair> pair = pair_in(fmt::format("{}", fmt::join(run.words(kWindowSize), ",")));
  if (!pair || run.text("transformer-impl") != "local") return {};
  const std::string given = fmt::format("--{} {},{}", kWindowSize, pair->left, pair->right);
  if (is_softmax_fused(run))
    return {
        {"window_ignored",
         fmt::format("{} has no effect: with --transformer-impl local, a fused softmax in 16 bits masks what "
                     "comes behind a token alone; --no-masked-softmax-fusion gives the layers their window",
                     given)}};
  if (pair->left < 0)
    return {{"window_without_keys",
             fmt::format(
                 "{} masks every key: with --transformer-impl local, each token then attends to all tokens "
                 "alike; leave --{} out, where no layer has a window",
                 given, kWindowSize)}};
  if (pair->right > 0)
    return {{"window_behind_a_token",
             fmt::format("{} is not causal: with --transformer-impl local, a token also sees {} behind it; "
                         "--{} {},0 is causal",
                         given, counted(pair->right, "token"), kWindowSize, pair->left)}};
  return {};
}

}  // namespace verify
