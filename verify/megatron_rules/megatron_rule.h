#pragma once

/// A row of the tables of Megatron's rules, and what the tables share: the value that an option has where it
/// is not given.
///
/// Calls   Each concept has a table in a file of its own; megatron_validation.cpp holds settings against all
///         of them.

#include <algorithm>
#include <cstdint>
#include <fmt/format.h>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "verify/vocabulary/derived_options.h"
#include "verify/vocabulary/settings.h"

namespace verify::megatron {

/// How a configuration breaks a rule: the numbers, and what to try.
struct Break {
  std::string numbers;
  std::string hint;
};
using MaybeBreak = std::optional<Break>;

struct Rule {
  const char* code;
  std::vector<const char*> options;  // the refusal names the first that is given
  MaybeBreak (*broken)(const Settings&);
  const char* rule;
  bool in_legacy = false;
};

/// The tables, in the order in which their refusals are told.
std::vector<Rule> model_rules();
std::vector<Rule> pipeline_rules();
std::vector<Rule> expert_rules();
std::vector<Rule> overlap_rules();
std::vector<Rule> recompute_rules();
std::vector<Rule> dtype_rules();

// ---- options that several tables name

inline constexpr const char* kTp = "tensor-model-parallel-size";
inline constexpr const char* kPp = "pipeline-model-parallel-size";
inline constexpr const char* kCp = "context-parallel-size";
inline constexpr const char* kEp = "expert-model-parallel-size";
inline constexpr const char* kDispatcher = "moe-token-dispatcher-type";
inline constexpr const char* kRecompute = "recompute-granularity";

// ---- what an option is where it is not given

inline std::int64_t size_of(const Settings& s, const char* option) { return s.number(option).value_or(1); }

/// The legacy rule book clamps tp to the world.
inline std::int64_t tp_of(const Settings& s) {
  const std::int64_t tp = size_of(s, kTp);
  return s.choice("rules") == "legacy" ? std::min(tp, s.number("world-size").value_or(tp)) : tp;
}
inline std::int64_t pp_of(const Settings& s) { return size_of(s, kPp); }
inline std::int64_t cp_of(const Settings& s) { return size_of(s, kCp); }
inline std::int64_t ep_of(const Settings& s) { return size_of(s, kEp); }
inline std::int64_t etp_of(const Settings& s) {
  return s.number("expert-tensor-parallel-size").value_or(tp_of(s));
}
inline std::int64_t experts_of(const Settings& s) { return s.number("num-experts").value_or(0); }
inline bool is_all_to_all(const Settings& s) { return s.choice(kDispatcher) != "allgather"; }
inline bool recomputes(const Settings& s, const char* granularity) {
  return s.text(kRecompute, "") == granularity;
}

// ---- what breaks a rule

/// What to try about an option of experts: in a model without experts, to leave it out.
inline std::string of_experts(const Settings& s, const std::string& hint, const char* option) {
  return experts_of(s) > 0 ? hint : fmt::format("leave {} out", option);
}

inline MaybeBreak broken_if(bool is_broken, std::string numbers, std::string hint) {
  if (!is_broken) return std::nullopt;
  return Break{std::move(numbers), std::move(hint)};
}

/// Whether `size` does not divide into `parts`; the hint is the next size that does.
inline MaybeBreak undivided(const char* option, std::optional<std::int64_t> size, std::int64_t parts,
                            const char* of) {
  if (!size || *size % parts == 0) return std::nullopt;
  return Break{fmt::format("{} over {} {}", *size, parts, of),
               fmt::format("--{} {}", option, (*size / parts + 1) * parts)};
}

}  // namespace verify::megatron
