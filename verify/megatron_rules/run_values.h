#pragma once

/// The arguments of a run by name, as Megatron's parser would hold them: of several values the last one, of a
/// log the flags that its variables stand for, and nothing where a value says that the argument is not given.
/// An option of this program replaces all values of its argument.
///
/// Exact   "true" (of YAML), "True" (of a log) and a flag that stands alone are the same; so are "false",
///         "False", "None", "null" and an argument that is absent. So is what every log of Megatron prints
///         for an argument that is not modelled (arguments.tsv).

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "verify/run_arguments/run_arguments.h"

namespace verify {

class RunValues {
 public:
  RunValues() = default;
  explicit RunValues(const RunArguments& run);

  struct Value {
    std::vector<std::string> words;  // empty for a flag that stands alone
    int line = 0;
  };

  bool has(std::string_view name) const { return values_.contains(name); }
  /// Whether a flag is set.
  bool flag(std::string_view name) const { return has(name); }
  /// The value as a whole number; nothing where it is none, or not given.
  std::optional<std::int64_t> number(std::string_view name) const;
  /// The value as text, with a blank between several words; `fallback` where it is not given.
  std::string text(std::string_view name, const std::string& fallback = "") const;
  std::vector<std::string> words(std::string_view name) const;

  void remove(const std::string& name) { values_.erase(name); }

  const std::map<std::string, Value, std::less<>>& all() const { return values_; }

  /// An argument that was given twice with different values, and that no option replaces.
  struct Repeated {
    std::string name;
    Value first, last;
  };
  const std::vector<Repeated>& repeated() const { return repeated_; }

 protected:
  void set(const std::string& name, Value value) { values_[name] = std::move(value); }

 private:
  std::map<std::string, Value, std::less<>> values_;
  std::vector<Repeated> repeated_;
};

}  // namespace verify
