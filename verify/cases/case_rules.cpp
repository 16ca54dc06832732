#include "verify/cases/case_rules.h"

#include <algorithm>
#include <cctype>
#include <exception>
#include <fmt/format.h>
#include <set>
#include <string_view>

#include "sim/base/error.h"
#include "sim/base/exception_text.h"
#include "sim/base/printable_text.h"

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

/// A rule about what one member of a case returns. `broken` returns what breaks the rule, or "" if nothing
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
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
  });
}

// ---- rules of a case

std::string name_is_no_word(const Case& the_case) {
  return is_word(the_case.name()) ? "" : fmt::format("the name is '{}'", the_case.name());
}

std::string dimension_is_not_named(const Case& the_case) {
  std::set<std::string> names;
  for (const Dimension& dimension : the_case.dimensions()) {
    if (!is_word(dimension.name)) return fmt::format("a dimension is named '{}'", dimension.name);
    if (!names.insert(dimension.name).second)
      return fmt::format("two dimensions are named '{}'", dimension.name);
  }
  return "";
}

/// --dimensions reads numbers of up to 6 digits.
constexpr std::int64_t kLargest = 999'999;

std::string dimension_has_no_range(const Case& the_case) {
  for (const Dimension& d : the_case.dimensions()) {
    if (d.least < 0 || d.least > d.most || d.most > kLargest)
      return fmt::format("dimension '{}' ranges from {} to {}", d.name, d.least, d.most);
  }
  return "";
}

constexpr Rule<Case> kCaseRules[] = {
    {"name()", "a name consists of one or more letters, digits, '_', '-' and '.'",
     "return a name such as scaled_linear", name_is_no_word},
    {"dimensions()", "each dimension has its own name, of letters, digits, '_', '-' and '.'",
     "use each name once, such as tokens", dimension_is_not_named},
    {"dimensions()", "0 <= least <= most <= 999999", "give it a range such as 1 to 9",
     dimension_has_no_range},
};

// ---- rules at a setting

std::string world_is_not_of_the_setting(const Declaration& declared) {
  const std::int64_t ranks = declared.ranks();
  if (declared.world_size == ranks && ranks >= 1) return "";
  return fmt::format("the world has {} ranks, but the setting has {}", declared.world_size, ranks);
}

std::string has_no_outputs(const Declaration& declared) {
  return declared.outputs.empty() ? "the list is empty" : "";
}

std::string output_is_not_named(const Declaration& declared) {
  std::vector<std::string_view> names;
  names.reserve(declared.outputs.size());
  for (const CaseOutput& output : declared.outputs) {
    if (output.name.empty()) return "an output has no name";
    names.push_back(output.name);
  }
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  return twice == names.end() ? "" : fmt::format("two outputs are named '{}'", *twice);
}

std::string stride_is_none(const Declaration& declared) {
  for (const CaseOutput& output : declared.outputs) {
    if (output.stride < 1) return fmt::format("output '{}' has stride {}", output.name, output.stride);
  }
  return "";
}

std::string placement_is_none(const Declaration& declared) {
  for (const CaseOutput& output : declared.outputs) {
    if (output.placement < Placement::replicated || output.placement > Placement::partial)
      return fmt::format("output '{}' has Placement({})", output.name, static_cast<int>(output.placement));
  }
  return "";
}

std::string part_of_is_not_of_the_world(const Declaration& declared) {
  const std::int64_t ranks = declared.ranks();
  for (const CaseOutput& output : declared.outputs) {
    if (!output.part_of.empty() && std::ssize(output.part_of) != ranks)
      return fmt::format("part_of of '{}' has {} entries, but the world has {} ranks", output.name,
                         output.part_of.size(), ranks);
  }
  return "";
}

std::string part_has_no_rank(const Declaration& declared) {
  std::vector<int> parts;
  for (const CaseOutput& output : declared.outputs) {
    if (output.part_of.empty()) continue;
    parts = output.part_of;
    std::ranges::sort(parts);
    parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
    int next = parts.front() == -1 ? -1 : 0;
    for (const int part : parts) {
      if (part < -1) return fmt::format("a rank of '{}' has part {}", output.name, part);
      if (part != next) return fmt::format("no rank has part {} of '{}'", next, output.name);
      ++next;
    }
    if (parts.back() < 0) return fmt::format("no rank has a part of '{}'", output.name);
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
  return std::ranges::any_of(outputs, [&](const auto& output) { return output.name == name; });
}

std::string identity_has_no_terms(const Declaration& declared) {
  for (const AdjointIdentity& identity : declared.identities) {
    if (identity.empty()) return "an identity has no terms";
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
      if (!is_output(declared.outputs, name))
        return fmt::format("an identity uses '{}', which outputs() does not list", name);
    }
  }
  return "";
}

constexpr Rule<Declaration> kSettingRules[] = {
    {"sizes()", "the world has group_size * replicas ranks, and at least one",
     ".world_size = setting.group_size * setting.replicas", world_is_not_of_the_setting},
    {"outputs()", "a case has at least one output, because a case without outputs proves nothing",
     "list each tensor that a rank publishes", has_no_outputs},
    {"outputs()", "each output has its own name", "list each published name once", output_is_not_named},
    {"outputs()", "a stride is a number of blocks, at least 1", "use stride 1", stride_is_none},
    {"outputs()", "a placement is replicated, rows, columns or partial", "Placement::replicated",
     placement_is_none},
    {"outputs()", "part_of is empty, or has one entry for each rank of the world",
     "give each rank its part, or -1 if it publishes none", part_of_is_not_of_the_world},
    {"outputs()", "parts are numbered from 0 without gaps, and -1 stands for no part",
     "number the parts 0, 1, ...", part_has_no_rank},
    {"outputs()", "a partial output is one part, of which every rank holds a term",
     "give part 0 to each rank that publishes it", sum_has_parts},
    {"adjoint()", "an identity has at least one term", "{{\"input\", \"grad_input\"}}",
     identity_has_no_terms},
    {"adjoint()", "each identity uses outputs, and outputs() lists 'output' and 'grad_output'",
     "list the tensor in outputs(), or correct its name", identity_names_no_output},
};

/// Refuses a declaration that breaks a rule of the table. at() is appended to the numbers of the refusal.
template <typename Declared, std::size_t kRules, typename Name, typename At>
void require(const Rule<Declared> (&rules)[kRules], const Declared& declared, const Name& name,
             const At& at) {
  for (const Rule<Declared>& rule : rules) {
    const std::string broken = rule.broken(declared);
    if (!broken.empty())
      refuse_case(fmt::format("{}: {}", name(), rule.member), broken + at(), rule.rule, rule.hint);
  }
}

/// Returns what a member of a case returns at a setting. A member that throws is refused.
template <typename Member>
auto returned(const Case& the_case, const char* name, const CaseSetting& setting, const Member& member) {
  try {
    return member();
  } catch (const std::exception& error) {
    refuse_case(fmt::format("case {}: {}", the_case.name(), name),
                fmt::format("it threw an exception: {} (at {})", sim::printable_text(sim::text_of(error)),
                            text_of(setting)),
                "a declaration never throws, at any setting of the case's dimensions",
                "use only dimensions that dimensions() lists");
  }
}

/// The dimensions of the corners: all at their least, all at their most, and each of them alone at its most.
std::vector<Dimensions> corner_dimensions(const Case& the_case) {
  Dimensions least, most;
  for (const Dimension& dimension : the_case.dimensions()) {
    least[dimension.name] = dimension.least;
    most[dimension.name] = dimension.most;
  }
  std::vector<Dimensions> corners = {least, most};
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
    refuse_case("cases", "the list is empty", "a program proves at least one case", "cases.push_back(...)");
  std::set<std::string> names;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const std::string place = fmt::format("case {} of {}", i + 1, cases.size());
    if (cases[i] == nullptr)
      refuse_case(place, "the pointer is null", "each entry is a case", "std::make_unique<MyCase>()");
    const Case& the_case = *cases[i];
    const std::string name = is_word(the_case.name()) ? "case " + the_case.name() : place;
    require(
        kCaseRules, the_case, [&] { return name; }, [] { return ""; });
    if (!names.insert(the_case.name()).second)
      refuse_case(name + ": name()", "two cases have this name", "each case has its own name",
                  "rename one of them");
  }
}

void require_declarations(const std::vector<const Case*>& cases, int most_ranks) {
  for (const Case* the_case : cases) {
    bool has_twins = false, has_other_twins = false;
    for (const int ranks : std::set<int>{1, 2, 3, most_ranks}) {
      if (ranks > most_ranks) continue;
      CaseSetting setting{.group_size = ranks, .ranks = the_case->ranks()};
      if (setting.ranks == Ranks::tensor_parallel && 2 * ranks <= most_ranks) setting.replicas = 2;
      for (auto& dimensions : corner_dimensions(*the_case)) {
        setting.dimensions = std::move(dimensions);
        require_declaration(*the_case, setting);
        const std::vector<CaseSetting> twins =
            returned(*the_case, "twins()", setting, [&] { return the_case->twins(setting); });
        has_twins = has_twins || !twins.empty();
        has_other_twins = has_other_twins || std::ranges::any_of(twins, [&](const CaseSetting& twin) {
                            return !(twin == setting);
                          });
      }
    }
    if (has_twins && !has_other_twins && most_ranks > 1)
      refuse_case(fmt::format("case {}: twins()", the_case->name()),
                  "at every corner of its settings, the only twin is the setting itself",
                  "a twin is another setting that computes the same bits",
                  "change a dimension that says how the case computes, or return no settings");
  }
}

std::vector<CaseOutput> require_declaration(const Case& the_case, const CaseSetting& setting) {
  const auto member = [&](const char* name, const auto& call) {
    return returned(the_case, name, setting, call);
  };
  Declaration declared{.setting = setting,
                       .world_size = member("sizes()", [&] { return the_case.sizes(setting).world_size; }),
                       .outputs = member("outputs()", [&] { return the_case.outputs(setting); }),
                       .identities = member("adjoint()", [&] { return the_case.adjoint(setting); })};
  require(
      kSettingRules, declared, [&] { return "case " + the_case.name(); },
      [&] { return fmt::format(" (at {})", text_of(setting)); });
  return std::move(declared.outputs);
}

}  // namespace verify
