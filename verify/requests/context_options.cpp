#include "verify/requests/context_options.h"

#include <algorithm>
#include <fmt/format.h>
#include <functional>

#include "sim/base/error.h"
#include "sim/base/refusals.h"
#include "verify/megatron_rules/attention_window.h"
#include "verify/output/phrases.h"
#include "verify/requests/requests.h"
#include "verify/vocabulary/settings.h"

namespace verify {

namespace {

using sim::CpCommType;

constexpr const char* kCpCommType = "cp-comm-type";
constexpr const char* kLevels = "hierarchical-context-parallel-sizes";

bool is_among(CpCommType type, const std::vector<CpCommType>& types) {
  return std::find(types.begin(), types.end(), type) != types.end();
}

void require_length(const Settings& settings, const std::vector<CpCommType>& types) {
  const auto layers = settings.number("num-layers");
  if (types.size() <= 1 || !layers || std::ssize(types) == *layers) return;
  sim::refuse({.code = "cp_comm_types",
               .option = "--cp-comm-type",
               .numbers = fmt::format("{} kinds for {} layers", types.size(), *layers),
               .rule = "all layers communicate in one way, or the list says how each of them does",
               .hint = fmt::format("one kind, or {} of them", *layers)});
}

void require_levels(const Settings& settings, const std::vector<CpCommType>& types, std::int64_t cp) {
  if (!is_among(CpCommType::a2a_p2p, types) || settings.has(kLevels)) return;
  sim::refuse({.code = "cp_levels",
               .option = "--cp-comm-type",
               .numbers = fmt::format("a2a+p2p over {} ranks", cp),
               .rule = "a2a+p2p needs the sizes of its two levels, the inner one first",
               .hint = fmt::format("--{} 2,{}", kLevels, cp / 2)});
}

/// Refuses heads that some layer cannot exchange.
void require_heads(const Settings& settings, const std::vector<CpCommType>& types, std::int64_t cp) {
  std::int64_t ranks = 1;
  if (is_among(CpCommType::a2a_p2p, types) && settings.has(kLevels))
    ranks = settings.numbers(kLevels).front();
  if (is_among(CpCommType::a2a, types)) ranks = cp;
  const auto heads = settings.number("num-attention-heads");
  if (!heads || ranks == 1) return;
  const std::int64_t tp = settings.number("tensor-model-parallel-size").value_or(1);
  const std::int64_t groups = query_groups(settings).value_or(*heads);
  if (*heads % (tp * ranks) == 0 && groups % (tp * ranks) == 0) return;
  sim::refuse({.code = "cp_heads",
               .option = "--cp-comm-type",
               .numbers = fmt::format("{} heads and {} query groups, tp {}, exchanged by {} ranks", *heads,
                                      groups, tp, ranks),
               .rule =
                   "the heads and the query groups of a tensor-parallel rank are multiples of the ranks that "
                   "exchange them by a2a; groups are not replicated",
               .hint = "--cp-comm-type p2p"});
}

/// Refuses kinds that take no heads whose keys and values differ in size.
void require_latent_kinds(const Settings& settings, const std::vector<CpCommType>& types) {
  const bool is_taken = !is_among(CpCommType::a2a, types) && !is_among(CpCommType::all_gather, types);
  if (!settings.flag("multi-latent-attention") || is_taken) return;
  sim::refuse({.code = "cp_latent",
               .option = "--cp-comm-type",
               .numbers = "--multi-latent-attention with a2a or all_gather",
               .rule = "latent attention has values of another size than keys, which p2p and a2a+p2p take",
               .hint = "--cp-comm-type p2p"});
}

/// Whether a2a+p2p has a ring of several ranks.
bool has_ring_of_levels(const Settings& settings) {
  const std::vector<std::int64_t> levels =
      settings.has(kLevels) ? settings.numbers(kLevels) : std::vector<std::int64_t>{};
  return levels.size() < 2 || levels[1] > 1;
}

/// Refuses layers with a sliding window whose kind has none.
void require_window_kinds(const Settings& settings, const std::vector<CpCommType>& types) {
  const AttentionWindow window = attention_window(settings);
  const std::int64_t layers =
      settings.number("num-layers").value_or(std::max<std::int64_t>(1, std::ssize(types)));
  const bool has_ring = has_ring_of_levels(settings);
  for (std::int64_t layer = 0; layer < layers && window.size >= 0; ++layer) {
    const auto at = types.size() == 1 ? 0 : static_cast<std::size_t>(layer);
    const CpCommType type = at < types.size() ? types[at] : CpCommType::p2p;
    const bool is_ring = type == CpCommType::p2p || (type == CpCommType::a2a_p2p && has_ring);
    if (!window.is_in(layer) || !is_ring) continue;
    sim::refuse({.code = "cp_window",
                 .option = "--cp-comm-type",
                 .numbers = fmt::format("{} in layer {}, which sees {} before each", sim::name_of(type),
                                        layer + 1, counted(window.size, "token")),
                 .rule = "Transformer Engine has a sliding window with a2a and all_gather alone",
                 .hint = "--cp-comm-type a2a"});
  }
}

}  // namespace

std::vector<CpCommType> cp_comm_types(const Settings& settings) {
  std::vector<CpCommType> types;
  if (!settings.has(kCpCommType)) return types;
  for (const std::string& name : settings.texts(kCpCommType)) types.push_back(sim::cp_comm_type(name));
  return types;
}

std::vector<sim::Warning> context_warnings(const Settings& settings) {
  const std::int64_t cp = settings.number("context-parallel-size").value_or(1);
  if (cp == 1) return {};
  const std::vector<CpCommType> types = cp_comm_types(settings);
  std::vector<sim::Warning> warnings;
  const auto warn_of = [&](const auto& require) {
    try {
      require();
    } catch (const sim::Error& error) {
      warnings.push_back(
          {error.refusal().code, fmt::format("{}, but {}; TransformerEngine stops at the first layer",
                                             error.refusal().numbers, error.refusal().rule)});
    }
  };
  warn_of([&] { require_heads(settings, types, cp); });
  warn_of([&] { require_latent_kinds(settings, types); });
  warn_of([&] { require_window_kinds(settings, types); });
  return warnings;
}

std::optional<CpCommType> kind_of_all_layers(const std::vector<CpCommType>& types) {
  if (types.empty()) return CpCommType::p2p;
  const bool is_one = std::adjacent_find(types.begin(), types.end(), std::not_equal_to<>()) == types.end();
  return is_one ? std::optional(types.front()) : std::nullopt;
}

void require_context_options(const Settings& settings) {
  const std::int64_t cp = settings.number("context-parallel-size").value_or(1);
  if (cp == 1) return;
  const std::vector<CpCommType> types = cp_comm_types(settings);
  sim::Refusals refusals;
  refusals.keep([&] { require_length(settings, types); });
  refusals.keep([&] { require_levels(settings, types, cp); });
  refusals.keep([&] { require_heads(settings, types, cp); });
  refusals.keep([&] { require_latent_kinds(settings, types); });
  refusals.keep([&] { require_window_kinds(settings, types); });
  refusals.throw_if_any();
}

}  // namespace verify
