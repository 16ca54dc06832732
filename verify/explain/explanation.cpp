#include "verify/explain/explanation.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <exception>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "sim/base/exception_text.h"
#include "sim/base/printable_text.h"
#include "verify/cases/case_inputs.h"
#include "verify/cases/spread.h"
#include "verify/explain/explained_calls.h"
#include "verify/explain/explained_resume.h"
#include "verify/explain/explained_sites.h"
#include "verify/explain/explained_tensors.h"
#include "verify/explain/no_numbers.h"
#include "verify/explain/wrong_tensor.h"
#include "verify/properties/assembled.h"
#include "verify/properties/bench.h"
#include "verify/properties/call_values.h"
#include "verify/properties/properties.h"

namespace verify {

namespace {

// ---- right in the field, and wrong in floats
//
// A tensor that is wrong in floats and right in the field: a factor, an error of the size of rounding, or
// something else.
//
// Exact   an error that rounding every operation to bf16 would not explain is never called one of rounding.

using Bounds = reference::Matrix<reference::Bounded>;

/// What an element may be off by: a share of its bound, and a share of itself.
struct Allowance {
  double of_bound = 1;
  double of_value = 0;
};

/// Whether every element lies within what is allowed about `factor` times the serial one.
bool lies_within(const std::vector<double>& got, const Bounds& serial, double factor,
                 const Allowance& allowed = {}) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    const reference::Bounded& expected = serial.data()[i];
    const double value = factor * expected.value();
    if (got[i] == value || (std::isnan(got[i]) && std::isnan(value))) continue;
    const double most =
        allowed.of_bound * std::fabs(factor) * expected.error() + allowed.of_value * std::fabs(value);
    if (!(std::fabs(got[i] - value) <= most)) return false;
  }
  return true;
}

/// Whether an element lies so far from 0 that a factor would show.
bool shows_a_factor(const Bounds& serial) {
  return std::any_of(serial.data(), serial.data() + serial.size(), [](const reference::Bounded& x) {
    return std::isfinite(x.value()) && std::fabs(x.value()) > 2 * x.error();
  });
}

/// Returns the factor between a tensor in floats and the serial one: a number of the setting, or a power of
/// two, with which losses are scaled. Returns "" if there is none.
std::string float_factor(const Case& the_case, const CaseSetting& setting, const std::vector<double>& got,
                         const Bounds& serial) {
  if (!shows_a_factor(serial)) return "";
  if (std::ranges::all_of(got, [](double x) { return x == 0; })) return "every element is zero";
  std::vector<NamedNumber> numbers = the_case.factors(setting);
  numbers.push_back({name_of(setting.ranks), setting.group_size});
  for (const std::int64_t number : {-1, 2}) numbers.push_back({fmt::format("{}", number), number});
  for (std::int64_t power = 4; power <= std::int64_t{1} << 24; power *= 2)
    numbers.push_back({fmt::format("{}", power), power});
  for (const auto& [name, value] : numbers) {
    if (value == 0 || value == 1) continue;
    const std::string text = name == fmt::format("{}", value) ? name : fmt::format("{} ({})", name, value);
    const auto number = static_cast<double>(value);
    if (lies_within(got, serial, number))
      return fmt::format("every element is {} times the serial one", text);
    if (lies_within(got, serial, 1 / number))
      return fmt::format("every element is the serial one divided by {}", text);
  }
  return "";
}

/// Returns what a layer may be off by that rounds each of its operations, and the tensor itself, to bf16, the
/// coarsest dtype. To first order a bound is proportional to the unit roundoff (Higham 2002, section 3.1).
Allowance coarsest_rounding(sim::DType dtype) {
  const double store = reference::rounding_of_bf16(1).store;
  return {.of_bound = store / rounding_of(dtype, 1).unit, .of_value = store};
}

/// The ranks that give a site nothing but what bf16 can hold, and those that give it more.
struct Precision {
  std::set<int> narrow, wide;
};

/// Returns the precision of what reaches the groups, by site. A few values may fit into bf16 by chance: a
/// rank counts as narrow where it is with each of several seeds, and where not all that it gives is zero.
std::map<std::string, Precision> precisions(Bench& bench, const Case& the_case, CaseSetting setting) {
  constexpr int kSeeds = 4;
  std::map<std::string, Precision> all;
  for (int tried = 0; tried < kSeeds; ++tried, ++setting.seed) {
    for (const auto& [site, of_ranks] : call_values(bench, the_case, setting, WatchedSide::group)) {
      Precision& precision = all[site];
      for (int rank = 0; rank < std::ssize(of_ranks); ++rank) {
        const CallValues& values = of_ranks[static_cast<std::size_t>(rank)];
        if (values.gives_a_number) (values.gives_wide ? precision.wide : precision.narrow).insert(rank);
      }
    }
  }
  for (auto& [site, precision] : all)
    std::erase_if(precision.narrow, [&](int rank) { return precision.wide.contains(rank); });
  return all;
}

/// Returns "" for no sites, and for too many to tell.
std::string text_of_narrow(const std::vector<std::string>& sites, const std::string& ranks_give,
                           const char* rest) {
  constexpr std::size_t kMostSites = 3;
  if (sites.empty() || sites.size() > kMostSites) return "";
  return fmt::format(" What {} to '{}' has the precision of bf16{}.", ranks_give, fmt::join(sites, "' or '"),
                     rest);
}

/// Returns the sites to which all ranks give what has the precision of bf16 already, and those to which some
/// ranks do and others do not.
std::string text_of_narrow_sites(Bench& bench, const Case& the_case, const CaseSetting& setting) {
  if (setting.dtype != sim::DType::f32 && setting.dtype != sim::DType::f64) return "";
  std::vector<std::string> of_all;
  std::map<std::set<int>, std::vector<std::string>> of_some;
  for (const auto& [site, precision] : precisions(bench, the_case, setting)) {
    if (precision.narrow.empty()) continue;
    (precision.wide.empty() ? of_all : of_some[precision.narrow]).push_back(site);
  }
  std::string text = text_of_narrow(of_all, "ranks give", ": to round it changes nothing");
  for (const auto& [ranks, sites] : of_some) {
    const bool is_one = ranks.size() == 1;
    const std::string give = fmt::format("{} {}", text_of_ranks(ranks, SIZE_MAX), is_one ? "gives" : "give");
    text += text_of_narrow(sites, give, ", and what other ranks give has not");
  }
  return text;
}

bool is_right_in_floats(Bench& bench, const Case& the_case, const CaseSetting& setting) {
  const std::shared_ptr<const sim::RunReport> run = bench.run(the_case, setting);
  const std::vector<CaseOutput> outputs = the_case.outputs(setting);
  if (!run->ok() || !check_outputs(*run, outputs, setting.dtype).empty()) return false;
  const auto wholes = bench.known().in_floats(the_case, setting);
  return std::ranges::all_of(outputs, [&](const CaseOutput& output) {
    const std::vector<double> got = assembled<double>(*run, output, setting.group_size).values;
    const auto serial = wholes->find(output.name);
    return serial != wholes->end() && static_cast<Eigen::Index>(got.size()) == serial->second.size() &&
           lies_within(got, serial->second, 1);
  });
}

/// A training with a loss scale has a step in floats that is skipped, because a gradient is not finite. The
/// field has no such gradient. Returns "" where the training is wrong without a loss scale, too.
std::string text_of_skipped_step(Bench& bench, const Case& the_case, const CaseSetting& setting) {
  const auto scaled = setting.dimensions.find("scaled");
  if (the_case.stretches(setting).empty() || scaled == setting.dimensions.end() || scaled->second == 0)
    return "";
  CaseSetting other = setting;
  other.dimensions["scaled"] = 0;
  if (!is_right_in_floats(bench, the_case, other)) return "";
  return " All is right with scaled 0: with a loss scale, and not in the field, a step is skipped whose "
         "gradient "
         "is not finite.";
}

/// Returns the options without which all is right in floats, here and with other seeds.
std::string text_of_float_needs(Bench& bench, const Case& the_case, const CaseSetting& setting) {
  constexpr std::uint64_t kSeeds = 3;
  constexpr std::size_t kMostNeeds = 3;
  if (!the_case.stretches(setting).empty()) return "";  // each run of a training takes long
  std::vector<std::string> needs;
  for (const Dimension& dimension : the_case.dimensions()) {
    if (setting[dimension.name] == dimension.least || dimension.is_an_axis) continue;
    CaseSetting other = setting;
    other.dimensions[dimension.name] = dimension.least;
    bool is_right = true;
    for (std::uint64_t more = 0; more < kSeeds && is_right; ++more, ++other.seed)
      is_right = is_right_in_floats(bench, the_case, other);
    if (is_right) needs.push_back(fmt::format("with {} {}", dimension.name, dimension.least));
  }
  if (needs.empty() || needs.size() > kMostNeeds) return "";
  return fmt::format(" All is right {}.", fmt::join(needs, ", or "));
}

/// The same as is_a_choice() (recognisers.h), in floats.
bool is_a_choice_in_floats(const std::vector<double>& got, const Bounds& serial) {
  const auto is_flag = [](double x) { return x == 0 || x == 1; };
  return std::ranges::all_of(got, is_flag) &&
         std::all_of(serial.data(), serial.data() + serial.size(),
                     [&](const reference::Bounded& x) { return is_flag(x.value()); });
}

/// Whether with other seeds, too, no tensor is off by more than rounding to bf16 explains.
bool has_size_of_rounding(Bench& bench, const Case& the_case, CaseSetting setting) {
  constexpr int kSeeds = 4;
  for (int tried = 0; tried < kSeeds; ++tried) {
    ++setting.seed;
    const std::shared_ptr<const sim::RunReport> run = bench.run(the_case, setting);
    const std::vector<CaseOutput> outputs = the_case.outputs(setting);
    if (!run->ok() || !check_outputs(*run, outputs, setting.dtype).empty()) continue;
    const auto wholes = bench.known().in_floats(the_case, setting);
    for (const CaseOutput& output : outputs) {
      const std::vector<double> got = assembled<double>(*run, output, setting.group_size).values;
      const auto serial = wholes->find(output.name);
      if (serial == wholes->end() || static_cast<Eigen::Index>(got.size()) != serial->second.size())
        return false;
      if (!lies_within(got, serial->second, 1, coarsest_rounding(setting.dtype))) return false;
    }
  }
  return true;
}

constexpr const char* kBranchOfFloats =
    "a branch that the field does not take, or takes by chance, such as a choice or a shift";

std::string explain_floats(Bench& bench, const Case& the_case, const CaseSetting& setting) {
  const std::shared_ptr<const sim::RunReport> run = bench.run(the_case, setting);
  if (!run->ok() || !check_outputs(*run, the_case.outputs(setting), setting.dtype).empty()) return "";
  const auto wholes = bench.known().in_floats(the_case, setting);
  for (const CaseOutput& output : the_case.outputs(setting)) {
    const std::vector<double> got = assembled<double>(*run, output, setting.group_size).values;
    const auto serial = wholes->find(output.name);
    if (serial == wholes->end() || static_cast<Eigen::Index>(got.size()) != serial->second.size()) return "";
    if (lies_within(got, serial->second, 1)) continue;
    const std::string begins = fmt::format(
        "in the field all is equal, and in {} {} is not: ", sim::name_of(setting.dtype), output.name);
    const std::string factor = float_factor(the_case, setting, got, serial->second);
    const std::string skipped = text_of_skipped_step(bench, the_case, setting);
    if (!factor.empty()) return begins + factor + "." + skipped;
    if (!skipped.empty()) return begins + "it is off by more than rounding explains." + skipped;
    if (is_a_choice_in_floats(got, serial->second))
      return begins + "another choice." + text_of_float_needs(bench, the_case, setting);
    if (lies_within(got, serial->second, 1, coarsest_rounding(setting.dtype))) break;
    return begins +
           "it is off by more than rounding every operation to bf16 would explain: " + kBranchOfFloats + "." +
           text_of_float_needs(bench, the_case, setting);
  }
  const bool is_rounding = has_size_of_rounding(bench, the_case, setting);
  if (!is_rounding)
    return fmt::format(
               "in the field all is equal, and in {} it is not: with other seeds it is off by more "
               "than rounding explains: {}.",
               sim::name_of(setting.dtype), kBranchOfFloats) +
           text_of_float_needs(bench, the_case, setting);
  return "in the field all is equal: the algebra is right, and the rounding, precision or order is not." +
         text_of_narrow_sites(bench, the_case, setting);
}

// ---- explanation

bool is_named(const Property& property, const char* name) { return std::strcmp(property.name, name) == 0; }

/// The names that a rank declares to publish.
std::set<std::string> declared_by(const std::vector<CaseOutput>& outputs, int rank) {
  std::set<std::string> names;
  for (const CaseOutput& output : outputs) {
    if (output.part_of.empty() || output.part_of[static_cast<std::size_t>(rank)] >= 0)
      names.insert(output.name);
  }
  return names;
}

/// Returns which ranks published what is declared for another one.
std::string explain_published(const sim::RunReport& report, const std::vector<CaseOutput>& outputs) {
  std::string text;
  for (const sim::RankReport& rank : report.ranks) {
    const std::set<std::string> own = declared_by(outputs, rank.rank);
    std::set<std::string> foreign, published;
    for (const sim::Published& tensor : rank.published) {
      published.insert(tensor.name);
      if (!own.contains(tensor.name)) foreign.insert(tensor.name);
    }
    if (foreign.empty()) continue;
    const auto belongs_to = std::ranges::find_if(report.ranks, [&](const auto& other) {
      const std::set<std::string> theirs = declared_by(outputs, other.rank);
      return other.rank != rank.rank && std::ranges::includes(theirs, foreign);
    });
    if (belongs_to == report.ranks.end()) continue;
    const bool has_own = std::ranges::includes(published, own);
    text += fmt::format("{}rank {} holds {}{}, which {} to rank {}, {}", text.empty() ? "" : "; ", rank.rank,
                        *foreign.begin(),
                        foreign.size() == 1 ? "" : fmt::format(" and {} more", foreign.size() - 1),
                        foreign.size() == 1 ? "belongs" : "belong", belongs_to->rank,
                        has_own ? "besides its own" : "in place of its own");
  }
  return text;
}

std::string sentences(const std::vector<std::string>& phrases) {
  std::string text;
  for (const std::string& phrase : phrases) {
    if (!phrase.empty()) text += (text.empty() ? "" : " ") + phrase + ".";
  }
  return text;
}

/// Returns where the sites of a run are called that a text names without a line: "'mlp.forward' is called at
/// sim/parallel/mlp.cpp:40." A site that many lines call says little by them.
std::string lines_of_sites(const std::string& text, const sim::RunReport& report) {
  constexpr std::size_t kMostLines = 2;
  std::map<std::string, std::set<std::string>> lines;
  for (const sim::RankReport& rank : report.ranks) {
    for (const sim::CallRecord& call : rank.calls) {
      if (call.group->size() == 1) continue;
      lines[call.site.name].insert(fmt::format("{}:{}", call.site.file, call.site.line));
    }
  }
  std::vector<std::string> phrases;
  for (const auto& [site, places] : lines) {
    const std::string name = fmt::format("'{}'", site);
    const bool needs_lines =
        text.find(name) != std::string::npos && text.find(name + " (") == std::string::npos;
    if (needs_lines && places.size() <= kMostLines)
      phrases.push_back(fmt::format("{}{} {}", name, phrases.empty() ? " is called at" : " at",
                                    fmt::join(places, " and ")));
  }
  return sentences({fmt::format("{}", fmt::join(phrases, ", "))});
}

/// Whether the only rank of a run touched a buffer while a call had it. The finding names that call. A call
/// of one rank with itself that is one too many changes nothing, and did not do it.
bool alone_touched_a_buffer_in_flight(const sim::RunReport& report) {
  return report.ranks.size() == 1 && report.findings.front().code.starts_with("buffer_in_flight");
}

std::string explained_resume(Bench& bench, const Case& the_case, const CaseSetting& in_field,
                             const CaseSetting& setting) {
  const std::string text = explain_resume(bench, the_case, in_field);
  const bool is_in_field = !text.empty() || setting.dtype == sim::DType::field;
  return is_in_field ? text : explain_resume_in_floats(bench, the_case, setting);
}

/// Returns the call before an exception that ended a run, by its line; "" where something else ended it.
std::string text_of_thrown(const sim::RunReport& report) {
  const sim::Finding& finding = report.findings.front();
  if (finding.code != "rank_threw" || finding.calls.empty()) return "";
  const int rank = finding.calls.front().rank;
  const auto of_rank = std::ranges::find(report.ranks, rank, &sim::RankReport::rank);
  if (of_rank == report.ranks.end()) return "";
  if (of_rank->calls.empty()) return fmt::format("rank {} has made no call before it", rank);
  const sim::CallRecord last = of_rank->calls.back();
  return fmt::format("the last call of rank {} before it is '{}' ({}:{})", rank, last.site.name,
                     last.site.file, last.site.line);
}

std::string explained_in_field(Bench& bench, const Case& the_case, const Property& property,
                               const CaseSetting& setting);

/// What is equal in the field may be so by chance, as a choice: other seeds may show it.
std::string explained_with_other_seeds(Bench& bench, const Case& the_case, const Property& property,
                                       CaseSetting setting) {
  constexpr int kSeeds = 12;
  if (setting.text) return "";
  const std::uint64_t own = setting.seed;
  for (int tried = 0; tried < kSeeds; ++tried) {
    ++setting.seed;
    const std::shared_ptr<const sim::RunReport> run = fit_run(bench, the_case, setting);
    if (run == nullptr) continue;
    if (wrong_tensors(compared_run(bench, the_case, setting, *run)).wrong.empty()) continue;
    const std::string text = explained_in_field(bench, the_case, property, setting);
    return text.empty()
               ? ""
               : fmt::format("in the field, with seed {} and not with {}: {}", setting.seed, own, text);
  }
  return "";
}

std::string explained_in_field(Bench& bench, const Case& the_case, const Property& property,
                               const CaseSetting& setting) {
  CaseSetting in_field = setting;
  in_field.dtype = sim::DType::field;
  const std::shared_ptr<const sim::RunReport> run = bench.run(the_case, in_field);
  const sim::RunReport& report = *run;
  if (!report.ok() && alone_touched_a_buffer_in_flight(report)) return "";
  const std::string calls = explain_calls(the_case, in_field, report);
  if (!report.ok()) return sentences({calls, text_of_thrown(report)});
  const std::vector<CaseOutput> outputs = the_case.outputs(in_field);
  if (!check_outputs(report, outputs, in_field.dtype).empty())
    return sentences({calls, explain_published(report, outputs)});
  const std::string beginnings = explain_no_numbers(bench, the_case, in_field);
  const std::string tensors = explain_tensors(bench, the_case, in_field, report);
  // Behind an element that is no number no change of a site shows.
  const bool has_sites = beginnings.empty() && calls.empty() && !tensors.empty();
  const std::string sites = has_sites ? explain_sites(bench, the_case, in_field, report) : "";
  const std::string text = sentences({beginnings, calls, tensors, sites});
  const auto with_lines = [&](const std::string& said) {
    const std::string lines = lines_of_sites(said, report);
    return lines.empty() ? said : said + " " + lines;
  };
  if (!text.empty()) return with_lines(text);
  if (!check_published(report, outputs, in_field.dtype).empty())
    return sentences({explain_published(report, outputs), "every tensor that outputs() names is right"});
  if (is_named(property, "resumes")) return sentences({explained_resume(bench, the_case, in_field, setting)});
  const bool compares = is_named(property, "serial") && setting.dtype != sim::DType::field;
  if (!compares) return "";
  const std::string chance = explained_with_other_seeds(bench, the_case, property, in_field);
  return chance.empty() ? with_lines(explain_floats(bench, the_case, setting)) : chance;
}

}  // namespace

std::string explanation(Bench& bench, const Case& the_case, const Property& property,
                        const CaseSetting& setting) {
  try {
    return explained_in_field(bench, the_case, property, setting);
  } catch (const std::exception& error) {
    return fmt::format("the case threw when it was run to explain this: {}.",
                       sim::printable_text(sim::text_of(error)));
  }
}

}  // namespace verify
