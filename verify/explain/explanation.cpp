#include "verify/explain/explanation.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <set>
#include <vector>

#include "verify/explain/explained_calls.h"
#include "verify/explain/explained_floats.h"
#include "verify/explain/explained_resume.h"
#include "verify/explain/explained_sites.h"
#include "verify/explain/explained_tensors.h"
#include "verify/explain/no_numbers.h"
#include "verify/properties/published_tensors.h"

namespace verify {

namespace {

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
    const auto belongs_to = std::find_if(report.ranks.begin(), report.ranks.end(), [&](const auto& other) {
      const std::set<std::string> theirs = declared_by(outputs, other.rank);
      return other.rank != rank.rank &&
             std::includes(theirs.begin(), theirs.end(), foreign.begin(), foreign.end());
    });
    if (belongs_to == report.ranks.end()) continue;
    const bool has_own = std::includes(published.begin(), published.end(), own.begin(), own.end());
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

std::string explained_in_field(Bench& bench, const Case& the_case, const Property& property,
                               const CaseSetting& setting) {
  CaseSetting in_field = setting;
  in_field.dtype = sim::DType::field;
  const std::shared_ptr<const sim::RunReport> run = bench.run(the_case, in_field);
  const sim::RunReport& report = *run;
  if (!report.ok() && alone_touched_a_buffer_in_flight(report)) return "";
  const std::string calls = explain_calls(the_case, in_field, report);
  if (!report.ok()) return sentences({calls});
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
  return compares ? with_lines(explain_floats(bench, the_case, setting)) : "";
}

}  // namespace

std::string explanation(Bench& bench, const Case& the_case, const Property& property,
                        const CaseSetting& setting) {
  try {
    return explained_in_field(bench, the_case, property, setting);
  } catch (const std::exception& error) {
    return fmt::format("the case threw when it was run to explain this: {}.", error.what());
  }
}

}  // namespace verify
