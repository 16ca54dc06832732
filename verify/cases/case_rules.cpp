#include "verify/cases/case_rules.h"

#include <algorithm>
#include <cctype>
#include <exception>
#include <fmt/format.h>
#include <set>
#include <string_view>

#include "sim/base/error.h"

namespace verify {

namespace {

/// What a case declares at a setting.
struct Declaration {
  const CaseSetting& setting;
  std::int64_t world_size;
  std::vector<CaseOutput> outputs;
  std::vector<AdjointIdentity> identities;
  std::int64_t ranks() const { return std::int64_t{setting.group_size} * setting.replicas; }
};

/// A rule about what one member of a case returns. `broken` says what breaks the rule, and "" where nothing
/// does.
template <typename Declared>
struct Rule {
  const char* member;
  const char* rule;
  const char* hint;
  std::string (*broken)(const Declared& declared);
};

[[noreturn]] void refuse_case(const std::string& where, const std::string& numbers, const char* rule,
                              const char* hint) {
  sim::refuse({.code = "case_declaration", .option = where, .numbers = numbers, .rule = rule, .hint = hint});
}

/// Whether a name can stand in a list of names, in a file name and before a "=".
bool is_word(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
  });
}

// ---- rules of a case

std::string name_is_no_word(const Case& the_case) {
  return is_word(the_case.name()) ? "" : fmt::format("'{}'", the_case.name());
}

std::string dimension_is_not_named(const Case& the_case) {
  std::set<std::string> names;
  for (const Dimension& dimension : the_case.dimensions()) {
    if (!is_word(dimension.name)) return fmt::format("'{}'", dimension.name);
    if (!names.insert(dimension.name).second) return fmt::format("'{}' twice", dimension.name);
  }
  return "";
}

/// --dimensions reads numbers of up to 6 digits.
constexpr std::int64_t kLargest = 999'999;

std::string dimension_has_no_range(const Case& the_case) {
  for (const Dimension& d : the_case.dimensions()) {
    if (d.least < 0 || d.least > d.most || d.most > kLargest)
      return fmt::format("'{}' from {} to {}", d.name, d.least, d.most);
  }
  return "";
}

constexpr Rule<Case> kCaseRules[] = {
    {"name()", "a name has letters, digits, '_', '-' and '.', and at least one of them",
     "a name such as scaled_linear", name_is_no_word},
    {"dimensions()", "each dimension has a name of its own, of letters, digits, '_', '-' and '.'",
     "a name such as tokens, once", dimension_is_not_named},
    {"dimensions()", "0 <= least <= most <= 999999", "a range such as 1 to 9", dimension_has_no_range},
};

// ---- rules at a setting

std::string world_is_not_of_the_setting(const Declaration& declared) {
  const std::int64_t ranks = declared.ranks();
  if (declared.world_size == ranks && ranks >= 1) return "";
  return fmt::format("a world of {} ranks for {}", declared.world_size, ranks);
}

std::string has_no_outputs(const Declaration& declared) { return declared.outputs.empty() ? "none" : ""; }

std::string output_is_not_named(const Declaration& declared) {
  std::set<std::string> names;
  for (const CaseOutput& output : declared.outputs) {
    if (output.name.empty()) return "an output without a name";
    if (!names.insert(output.name).second) return fmt::format("'{}' twice", output.name);
  }
  return "";
}

std::string stride_is_none(const Declaration& declared) {
  for (const CaseOutput& output : declared.outputs) {
    if (output.stride < 1) return fmt::format("stride {} of '{}'", output.stride, output.name);
  }
  return "";
}

std::string part_of_is_not_of_the_world(const Declaration& declared) {
  const std::int64_t ranks = declared.ranks();
  for (const CaseOutput& output : declared.outputs) {
    if (!output.part_of.empty() && std::ssize(output.part_of) != ranks)
      return fmt::format("part_of of '{}' has {} entries for {} ranks", output.name, output.part_of.size(),
                         ranks);
  }
  return "";
}

std::string part_has_no_rank(const Declaration& declared) {
  for (const CaseOutput& output : declared.outputs) {
    if (output.part_of.empty()) continue;
    const std::set<int> parts(output.part_of.begin(), output.part_of.end());
    int next = *parts.begin() == -1 ? -1 : 0;
    for (const int part : parts) {
      if (part < -1) return fmt::format("part {} of '{}'", part, output.name);
      if (part != next) return fmt::format("part {} of '{}' is on no rank", next, output.name);
      ++next;
    }
    if (*parts.rbegin() < 0) return fmt::format("'{}' is on no rank", output.name);
  }
  return "";
}

std::string sum_has_parts(const Declaration& declared) {
  for (const CaseOutput& output : declared.outputs) {
    const int parts = output.parts(declared.setting.group_size);
    if (output.placement == Placement::partial && parts > 1)
      return fmt::format("'{}' is partial and has {} parts", output.name, parts);
  }
  return "";
}

bool is_output(const std::vector<CaseOutput>& outputs, const std::string& name) {
  return std::any_of(outputs.begin(), outputs.end(), [&](const auto& output) { return output.name == name; });
}

std::string identity_has_no_terms(const Declaration& declared) {
  for (const AdjointIdentity& identity : declared.identities) {
    if (identity.empty()) return "an identity without a term";
  }
  return "";
}

std::string identity_names_no_output(const Declaration& declared) {
  std::vector<AdjointTerm> terms;
  for (const AdjointIdentity& identity : declared.identities) {
    if (terms.empty()) terms.push_back({"output", "grad_output"});  // the other side of every identity
    terms.insert(terms.end(), identity.begin(), identity.end());
  }
  for (const AdjointTerm& term : terms) {
    for (const std::string& name : {term.value, term.gradient}) {
      if (!is_output(declared.outputs, name)) return fmt::format("'{}' is no output", name);
    }
  }
  return "";
}

constexpr Rule<Declaration> kSettingRules[] = {
    {"sizes()", "the world has group_size * replicas ranks, which is at least one",
     ".world_size = setting.group_size * setting.replicas", world_is_not_of_the_setting},
    {"outputs()", "a case has an output, since a case without one proves nothing",
     "each tensor that a rank publishes", has_no_outputs},
    {"outputs()", "each output has a name of its own", "the name under which it is published, once",
     output_is_not_named},
    {"outputs()", "a stride is a number of blocks, at least 1", "stride 1", stride_is_none},
    {"outputs()", "part_of is empty, or has the part of each rank of the world",
     "an entry for each rank, -1 where it publishes nothing", part_of_is_not_of_the_world},
    {"outputs()", "parts count from 0, each is on a rank, and -1 stands for no part",
     "parts 0, 1, ... without a gap", part_has_no_rank},
    {"outputs()", "what is summed over ranks is one whole", "part 0 on each of its ranks", sum_has_parts},
    {"adjoint()", "an identity has at least one term", "{{\"input\", \"grad_input\"}}",
     identity_has_no_terms},
    {"adjoint()", "identities are over outputs, and 'output' and 'grad_output' are among these",
     "the names in outputs()", identity_names_no_output},
};

/// Refuses what breaks a rule of the table. `at` ends what the refusal was given.
template <typename Declared, std::size_t kRules>
void require(const Rule<Declared> (&rules)[kRules], const Declared& declared, const std::string& name,
             const std::string& at) {
  for (const Rule<Declared>& rule : rules) {
    const std::string broken = rule.broken(declared);
    if (!broken.empty())
      refuse_case(fmt::format("{}: {}", name, rule.member), broken + at, rule.rule, rule.hint);
  }
}

/// Returns what a member of a case returns at a setting. A member that throws is refused.
template <typename Member>
auto returned(const Case& the_case, const char* name, const CaseSetting& setting, const Member& member) {
  try {
    return member();
  } catch (const std::exception& error) {
    refuse_case(fmt::format("case {}: {}", the_case.name(), name),
                fmt::format("it threw: {} (at {})", error.what(), text_of(setting)),
                "a case has a declaration at every setting of its dimensions", "a dimension of dimensions()");
  }
}

/// The dimensions of the corners: all at their least, all at their most, and each of them alone at its most.
std::vector<std::map<std::string, std::int64_t>> corner_dimensions(const Case& the_case) {
  std::map<std::string, std::int64_t> least, most;
  for (const Dimension& dimension : the_case.dimensions()) {
    least[dimension.name] = dimension.least;
    most[dimension.name] = dimension.most;
  }
  std::vector<std::map<std::string, std::int64_t>> corners = {least, most};
  for (const auto& [name, value] : most) {
    if (value == least.at(name)) continue;
    corners.push_back(least);
    corners.back()[name] = value;
  }
  return corners;
}

}  // namespace

void require_cases(const CaseList& cases) {
  if (cases.empty())
    refuse_case("cases", "none", "a program proves at least one case", "cases.push_back(...)");
  std::set<std::string> names;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const std::string place = fmt::format("case {} of {}", i + 1, cases.size());
    if (cases[i] == nullptr) refuse_case(place, "null", "a case is an object", "std::make_unique<MyCase>()");
    const Case& the_case = *cases[i];
    const std::string name = is_word(the_case.name()) ? "case " + the_case.name() : place;
    require(kCaseRules, the_case, name, "");
    if (!names.insert(the_case.name()).second)
      refuse_case(name + ": name()", "the name of two cases", "each case has a name of its own",
                  "another name for one of them");
  }
}

void require_declarations(const std::vector<const Case*>& cases, int most_ranks) {
  for (const Case* the_case : cases) {
    for (const int ranks : std::set<int>{1, 2, 3, most_ranks}) {
      if (ranks > most_ranks) continue;
      CaseSetting setting{.group_size = ranks, .ranks = the_case->ranks()};
      if (setting.ranks == Ranks::tensor_parallel && 2 * ranks <= most_ranks) setting.replicas = 2;
      for (auto& dimensions : corner_dimensions(*the_case)) {
        setting.dimensions = std::move(dimensions);
        require_declaration(*the_case, setting);
      }
    }
  }
}

void require_declaration(const Case& the_case, const CaseSetting& setting) {
  const auto member = [&](const char* name, const auto& call) {
    return returned(the_case, name, setting, call);
  };
  const Declaration declared{
      .setting = setting,
      .world_size = member("sizes()", [&] { return the_case.sizes(setting).world_size; }),
      .outputs = member("outputs()", [&] { return the_case.outputs(setting); }),
      .identities = member("adjoint()", [&] { return the_case.adjoint(setting); })};
  require(kSettingRules, declared, "case " + the_case.name(), fmt::format(" (at {})", text_of(setting)));
}

}  // namespace verify
