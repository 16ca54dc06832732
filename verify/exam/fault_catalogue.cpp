#include "verify/exam/fault_catalogue.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <sstream>
#include <utility>

#include "sim/base/printable_text.h"
#include "sim/base/refusals.h"
#include "verify/campaign/campaign.h"
#include "verify/campaign/case_request.h"
#include "verify/cases/case_rules.h"
#include "verify/output/input_file.h"
#include "verify/output/refusal_table.h"
#include "verify/properties/bench.h"
#include "verify/vocabulary/nearest_name.h"

namespace verify {

namespace {

constexpr std::size_t kMostCatalogueBytes = 1 << 20;
constexpr std::int64_t kDrawsOfABug = 300;

struct CatalogueKey {
  const char* name;
  bool is_required;
  bool is_repeated;
  const char* example;
};
constexpr std::array<CatalogueKey, 6> kCatalogueKeys = {
    {{"source", false, false, "MLM#1446"},
     {"case", true, false, "row_parallel_linear"},
     {"fault", true, true, "row_parallel_linear.forward:skip"},
     {"property", true, false, "serial"},
     {"dtype", false, false, "field"},
     {"names", true, false, "row_parallel_linear.forward"}}};

/// A section of a file, as it is written.
struct WrittenBug {
  std::string bug;
  std::string where;  // the file and the line of the section
  std::map<std::string, std::vector<std::string>> values;
  std::map<std::string, std::string> lines;  // where each key is given

  std::string text(const std::string& key) const {
    const auto found = values.find(key);
    return found == values.end() ? "" : found->second.front();
  }
};

void read_bug(const std::string& line, const std::string& where, std::vector<WrittenBug>& bugs) {
  const std::string bug = without_blanks(line.substr(1, line.size() - 2));
  if (!line.ends_with(']') || bug.empty()) refuse_by("catalogue_syntax/bug", where, line);
  const bool is_known = std::ranges::any_of(bugs, [&](const auto& one) { return one.bug == bug; });
  bugs.push_back({.bug = bug, .where = where, .values = {}, .lines = {}});
  if (is_known) refuse_by("catalogue_syntax/bug_twice", where, bug);
}

void read_value(const std::string& line, const std::string& where, std::vector<WrittenBug>& bugs) {
  const std::size_t equals = line.find('=');
  if (equals == std::string::npos)
    refuse_by("catalogue_syntax/line", where, line, kCatalogueKeys[1].name, kCatalogueKeys[1].example);
  const std::string name = without_blanks(line.substr(0, equals));
  const std::string value = without_blanks(line.substr(equals + 1));
  if (bugs.empty()) refuse_by("catalogue_syntax/no_bug", where, name);
  const auto key =
      std::ranges::find_if(kCatalogueKeys, [&](const auto& known) { return name == known.name; });
  if (key == kCatalogueKeys.end()) {
    const std::string nearest = nearest_name(name, names_of(kCatalogueKeys));
    refuse_by("catalogue_key", where, name, fmt::join(names_of(kCatalogueKeys), ", "),
              nearest.empty() ? kCatalogueKeys.front().name : nearest);
  }
  if (value.empty()) refuse_by("catalogue_syntax/no_value", where, name, key->example);
  WrittenBug& bug = bugs.back();
  if (!key->is_repeated && bug.values.contains(name)) refuse_by("catalogue_syntax/key_twice", where, name);
  bug.values[name].push_back(value);
  bug.lines.emplace(name, where);
}

void read_written(const std::string& path, sim::Refusals& refusals, std::vector<WrittenBug>& bugs) {
  InputText input = text_of_input(path, kMostCatalogueBytes);
  if (!input.problem.empty()) refuse_by("catalogue_missing", path, input.problem);
  std::istringstream stream(input.text);
  int number = 0;
  for (std::string line; std::getline(stream, line);) {
    const std::string where = fmt::format("{}, line {}", path, ++number);
    // A '#' within a value is part of it, as in MLM#1446.
    const std::string content = sim::printable_text(without_blanks(line));
    if (content.empty() || content.starts_with('#')) continue;
    refusals.keep([&] { (content.starts_with('[') ? read_bug : read_value)(content, where, bugs); });
  }
}

/// Returns the key of a bug that a refusal is about.
const char* key_of(const std::string& code) {
  if (code == "unknown_case") return "case";
  if (code == "unknown_property" || code == "nothing_to_check") return "property";
  return code == "unknown_dtype" ? "dtype" : "fault";
}

/// Does a piece of work whose refusals name a place in a file before the option. `place` returns it, for the
/// code of the refusal.
template <typename Work, typename Place>
void told_at(const Place& place, const Work& work) {
  try {
    work();
  } catch (const sim::Error& error) {
    sim::Refusal refusal = error.refusal();
    refusal.option = fmt::format("{}: {}", place(refusal.code), refusal.option);
    sim::refuse(std::move(refusal));
  }
}

CatalogueEntry entry_of(const WrittenBug& bug, const CaseOptions& options, const CaseList& cases) {
  for (const CatalogueKey& key : kCatalogueKeys) {
    if (!key.is_required || bug.values.contains(key.name)) continue;
    refuse_by("catalogue_incomplete", bug.where, bug.bug, key.name, key.example);
  }
  const std::string file = bug.where.substr(0, bug.where.rfind(", line "));
  CatalogueEntry entry{
      .bug = bug.bug, .file = file, .source = bug.text("source"), .names = bug.text("names"), .request = {}};
  const CaseOptions one{.cases = {bug.text("case")},
                        .properties = {bug.text("property")},
                        .dtypes = {bug.values.contains("dtype") ? bug.text("dtype") : "field"},
                        .runs = kDrawsOfABug,
                        .seed = options.seed,
                        .max_world = options.max_world,
                        .plants = bug.values.at("fault")};
  told_at([&](const std::string& code) { return bug.lines.at(key_of(code)); },
          [&] {
            entry.request = named_campaign(one, cases);
            if (campaign_rows(entry.request).empty()) refuse_nothing_to_check();
          });
  return entry;
}

bool is_chosen(const std::vector<std::string>& chosen, const std::string& name) {
  return chosen.empty() || std::ranges::find(chosen, name) != chosen.end();
}

bool has_chosen_fault(const CaseOptions& options, const CatalogueEntry& entry) {
  return std::ranges::any_of(entry.request.faults, [&](const Fault& fault) {
    return is_chosen(options.faults, info_of(fault.kind).name);
  });
}

CatalogueRow row_of(const CatalogueEntry& entry, Bench& bench) {
  bench.plant(entry.request.faults);
  std::vector<CampaignRow> rows = campaign_rows(entry.request);
  run_campaign(entry.request, {&bench, 1}, rows, [](std::int64_t, const CampaignRow&) { return true; });
  bench.plant({});
  CatalogueRow row{.entry = &entry,
                   .verdict = FaultVerdict::missed,
                   .runs = rows.front().runs,
                   .sentence = "the property holds in all draws",
                   .failure = std::move(rows.front().failure)};
  if (!row.failure) {
    const bool is_met =
        std::ranges::any_of(entry.request.faults, [](const Fault& fault) { return *fault.met > 0; });
    if (!is_met) row.sentence = "no call of any draw had the fault";
    return row;
  }
  const Failure& failure = *row.failure;
  row.sentence = failure.explanation.empty() ? failure.detail : failure.explanation;
  std::string said = failure.detail + "\n" + failure.explanation;
  if (failure.finding) said += "\n" + sim::text_of(*failure.finding, "");
  const bool is_named = said.find(entry.names) != std::string::npos;
  row.verdict = is_named ? FaultVerdict::caught : FaultVerdict::unnamed;
  return row;
}

/// Returns each case once, in the order of the entries.
std::vector<const Case*> cases_of(std::span<const CatalogueEntry> entries) {
  std::vector<const Case*> cases;
  for (const CatalogueEntry& entry : entries) {
    const Case* the_case = &entry.the_case();
    if (std::ranges::find(cases, the_case) == cases.end()) cases.push_back(the_case);
  }
  return cases;
}

void require_sites_of(std::span<const CatalogueEntry> entries, std::span<Bench> benches) {
  const std::vector<const Case*> cases = cases_of(entries);
  std::map<const Case*, std::vector<SiteOperation>> sites;  // it is looked up and never gone through
  for (const Case* the_case : cases) sites[the_case] = {};
  over_benches(cases.size(), benches, [&](Bench& bench, std::size_t i) {
    const auto entry =
        std::ranges::find_if(entries, [&](const CatalogueEntry& one) { return &one.the_case() == cases[i]; });
    CampaignRequest request = entry->request;
    request.dtypes = {sim::DType::field};
    sites.at(cases[i]) = sites_of(request, bench);
  });
  sim::Refusals refusals;
  for (const CatalogueEntry& entry : entries) {
    refusals.keep([&] {
      told_at([&](const std::string&) { return fmt::format("{} [{}]", entry.file, entry.bug); },
              [&] { require_sites(entry.request.faults, sites.at(&entry.the_case())); });
    });
  }
  refusals.throw_if_any();
}

std::string none_of(std::size_t bugs) { return bugs == 0 ? "no bug" : fmt::format("none of {} bugs", bugs); }

}  // namespace

std::string CatalogueEntry::faults_text() const {
  std::vector<std::string> texts;
  for (const Fault& fault : request.faults) texts.push_back(fault.text);
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::vector<CatalogueEntry> read_catalogue(const std::vector<std::string>& files, const CaseOptions& options,
                                           const CaseList& cases) {
  sim::Refusals refusals;
  std::vector<WrittenBug> bugs;
  for (const std::string& file : files) refusals.keep([&] { read_written(file, refusals, bugs); });
  std::vector<CatalogueEntry> entries;
  for (const WrittenBug& bug : bugs) refusals.keep([&] { entries.push_back(entry_of(bug, options, cases)); });
  refusals.throw_if_any();
  std::erase_if(entries, [&](const CatalogueEntry& entry) {
    return !is_chosen(options.cases, entry.the_case().name()) || !has_chosen_fault(options, entry);
  });
  if (!entries.empty()) return entries;
  if (files.empty()) refuse_by("nothing_in_catalogue/files", "--catalogue");
  refuse_by("nothing_in_catalogue", "--catalogue", none_of(bugs.size()), fmt::join(files, ", "));
}

std::vector<CatalogueRow> run_catalogue(std::span<const CatalogueEntry> entries, std::span<Bench> benches,
                                        const ExamGoesOn& goes_on) {
  if (!entries.empty()) require_declarations(cases_of(entries), entries.front().request.max_world);
  require_sites_of(entries, benches);
  std::vector<CatalogueRow> rows(entries.size());
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].entry = &entries[i];
  over_items(
      entries.size(), benches, goes_on, [&](std::size_t i) { return entries[i].bug; },
      [&](Bench& bench, std::size_t i) { rows[i] = row_of(entries[i], bench); });
  return rows;
}

}  // namespace verify
