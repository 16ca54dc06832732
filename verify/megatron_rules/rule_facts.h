#pragma once

/// What a rule sees: the arguments of a run, or the options of the command line and of scenarios, with what
/// follows from them and the variables of the environment that the file sets.
///
/// Shapes  Arguments have their words; a flag has none, and a flag that is false is absent. Derived values
///         are those of effective_values.h and the `world` for a run; for options a few of the same names.
/// Exact   A number is not known if it is absent or no decimal number.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "verify/megatron_rules/run_values.h"
#include "verify/vocabulary/settings.h"

namespace verify {

struct Unknown {};
struct Absent {};
/// A value in a rule. An argument has its words.
using RuleValue = std::variant<Unknown, Absent, bool, double, std::string, std::vector<std::string>>;

RuleValue number_or_absent(std::optional<std::int64_t> number);
/// Whether a value is true, or there at all; nothing if that is not known.
std::optional<bool> truth_of(const RuleValue& value);
std::optional<double> number_of(const RuleValue& value);
/// The text, with a blank between words; "" for an absent value, and nothing for one that is not known.
std::optional<std::string> text_of(const RuleValue& value);
/// The words, whether they are given as several or as "[a, b]".
std::vector<std::string> words_of(const RuleValue& value);

/// The arguments are read as those of a run are (run_values.h).
class RuleFacts : public RunValues {
 public:
  explicit RuleFacts(const Settings& options);
  RuleFacts(const RunValues& values, const std::map<std::string, std::string>& environment,
            std::optional<std::int64_t> world);

  /// Adds a value that no argument gives.
  void add(const std::string& name, RuleValue value) { derived_[name] = std::move(value); }

  RuleValue argument(std::string_view name) const;
  RuleValue environment(std::string_view name) const;
  RuleValue derived(std::string_view name) const;
  /// Whether an argument is given, also a flag as false.
  bool is_given(std::string_view argument) const;
  /// An argument as a refusal tells it: "--num-layers 4", "no --num-layers".
  std::string told(std::string_view argument) const;
  /// The names of all derived values.
  std::vector<std::string> derived_names() const;

 private:
  std::set<std::string, std::less<>> false_flags_;
  std::map<std::string, std::string, std::less<>> environment_;
  std::map<std::string, RuleValue, std::less<>> derived_;  // of a run, those of effective_values.h apart
  bool is_of_run_ = false;
};

}  // namespace verify
