#include "verify/explain/changed_sites.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "verify/explain/field_ratio.h"
#include "verify/explain/wrong_tensor.h"
#include "verify/faults/faulty_device.h"
#include "verify/properties/assembled.h"
#include "verify/properties/bench.h"
#include "verify/properties/call_values.h"

namespace verify {

namespace {

std::size_t calls_of(const sim::RunReport& report) {
  std::size_t calls = 0;
  for (const sim::RankReport& rank : report.ranks) calls += rank.calls.size();
  return calls;
}

using sim::Field;

Fault change_at(const std::string& site, const char* what, const FaultWhere& where) {
  Fault fault = parsed_fault(site + ":" + what);
  fault.where = where;
  return fault;
}

/// Returns the fraction that of / to is: of small numbers, or of a power of two and one beside it.
std::optional<sim::Ratio> ratio_of(const Field& of, const Field& to) {
  if (const auto small = small_fraction(of, to)) return sim::Ratio{small->numerator, small->denominator};
  constexpr int kMostBits = 30;
  for (int bits = 1; bits <= kMostBits; ++bits) {
    const std::int64_t whole = std::int64_t{1} << bits;
    for (const std::int64_t beside : {whole + 1, whole - 1}) {
      if (Field::of(whole) * to == Field::of(beside) * of) return sim::Ratio{whole, beside};
      if (Field::of(beside) * to == Field::of(whole) * of) return sim::Ratio{beside, whole};
    }
  }
  return std::nullopt;
}

struct Quotient {
  Field of, to;
};

/// Returns the number that the quotients of all wrong elements are, if they are one number. `quotient_of`
/// gives the quotient of an element, or none.
template <typename QuotientOf>
std::optional<sim::Ratio> common_factor(const WrongTensor& tensor, const QuotientOf& quotient_of) {
  std::optional<sim::Ratio> factor;
  for (std::size_t i = 0; i < tensor.got.size(); ++i) {
    if (!tensor.is_wrong[i]) continue;
    const std::optional<Quotient> quotient = quotient_of(i);
    if (!quotient) return std::nullopt;
    const auto& [of, to] = *quotient;
    if (!factor) factor = ratio_of(of, to);
    if (!factor || !(Field::of(factor->numerator) * to == Field::of(factor->denominator) * of))
      return std::nullopt;
  }
  return factor;
}

/// Returns the number by which a result must be multiplied for this tensor to be right, if the tensor is
/// linear in the result: between the run and the one with the result tripled the tensor changes by twice its
/// part.
std::optional<sim::Ratio> factor_by(const WrongTensor& tensor, const WrongTensor& tripled) {
  return common_factor(tensor, [&](std::size_t i) -> std::optional<Quotient> {
    const Field change = tripled.got[i] - tensor.got[i];
    if (change == Field::of(0)) return std::nullopt;
    const Field missing = tensor.serial.data()[i] - tensor.got[i];
    return Quotient{change + missing + missing, change};
  });
}

/// Returns the same for a tensor that is divided by the result: it is a third of what it was where the result
/// is tripled.
std::optional<sim::Ratio> factor_of_divisor(const WrongTensor& tensor, const WrongTensor& tripled) {
  return common_factor(tensor, [&](std::size_t i) -> std::optional<Quotient> {
    const Field got = tensor.got[i];
    if (got == Field::of(0) || !(Field::of(3) * tripled.got[i] == got)) return std::nullopt;
    return Quotient{got, tensor.serial.data()[i]};
  });
}

std::optional<sim::Ratio> repairing_factor(const ComparedRun& run, const WrongTensors& tensors,
                                           const sim::RunReport& changed) {
  constexpr std::size_t kMostTensors = 3;
  const ComparedRun tripled{run.the_case, run.setting, changed, run.number, run.serial, run.inputs};
  for (std::size_t i = 0; i < std::min(tensors.wrong.size(), kMostTensors); ++i) {
    const WrongTensor& tensor = tensors.wrong[i];
    const WrongTensor of_tripled = compared_tensor(tripled, tensor.output);
    if (const auto factor = factor_of_divisor(tensor, of_tripled)) return factor;
    if (const auto factor = factor_by(tensor, of_tripled)) return factor;
  }
  return std::nullopt;
}

/// `name` is that of the site in what a repair says.
void add_repairs_of_call(const ComparedRun& run, const WrongTensors& tensors, const ChangedSite& site,
                         const std::string& name, const FaultWhere& where, std::vector<Repair>& repairs) {
  const auto applies = [&](FaultKind kind) {
    return std::ranges::any_of(site.operations, info_of(kind).applies);
  };
  // The factor by which a tensor says it is wrong is tried first, then those of a group's size. A negative
  // one comes last: a tensor that depends on the result in another way may seem to say it.
  const auto factor = site.changed == nullptr ? std::nullopt : repairing_factor(run, tensors, *site.changed);
  std::vector<sim::Ratio> factors;
  if (site.changed != nullptr) factors = {{1, site.places}, {site.places, 1}};
  if (factor) factors.insert(factor->numerator < 0 ? factors.end() : factors.begin(), *factor);
  for (const sim::Ratio& ratio : factors) {
    Fault scale = change_at(site.site, "scale=2", where);
    scale.factor.number = ratio;
    const std::string number = ratio.denominator == 1
                                   ? fmt::format("{}", ratio.numerator)
                                   : fmt::format("{}/{}", ratio.numerator, ratio.denominator);
    repairs.push_back({{scale}, fmt::format("the result of {} is multiplied by {}", name, number)});
  }
  if (!applies(FaultKind::swap_blocks)) return;
  repairs.push_back({{change_at(site.site, "swap-blocks", where)},
                     fmt::format("the first two blocks of {} change places", name)});
  if (site.places == 2) return;
  const auto turns = static_cast<std::size_t>(site.places - 1);
  repairs.push_back({std::vector<Fault>(turns, change_at(site.site, "next-block", where)),
                     fmt::format("each block of {} is the block of the place before", name)});
}

void add_repairs_of_kernel(const ChangedSite& site, const FaultWhere& where, std::vector<Repair>& repairs) {
  constexpr std::pair<const char*, const char*> kChanges[] = {
      {"offset=1", "the results of {} are shifted by one element"},
      {"transpose", "the results of {} are transposed"},
      {"drop-accumulate", "{} adds to what was there"}};
  for (const auto& [change, says] : kChanges) {
    Fault fault = change_at(site.site, change, where);
    fault.is_undone = true;
    repairs.push_back({{fault}, fmt::format(fmt::runtime(says), site.name())});
  }
}

/// Returns the same changes at each of the sites.
std::vector<Fault> at_each(const std::vector<ChangedSite>& sites, const std::vector<Fault>& changes) {
  std::vector<Fault> all;
  for (const ChangedSite& site : sites) {
    for (Fault fault : changes) {
      fault.site = site.site;
      all.push_back(std::move(fault));
    }
  }
  return all;
}

/// Adds the calls of one kind of group at a site to those of another, or of none yet.
void add_calls(ChangedSite& site, const ChangedSite& of_kind) {
  site.site = of_kind.site;
  site.operations.insert(of_kind.operations.begin(), of_kind.operations.end());
  site.places = std::max(site.places, of_kind.places);
}

/// The sites whose results a change may reach: all calls of a site, and those of each kind of group where it
/// has several, as gradients of experts are reduced over other replicas than others. Of a training on text,
/// each run of which takes long, only all calls of a site are changed.
std::vector<ChangedSite> sites_of_run(const Bench& bench, const CaseSetting& setting,
                                      const sim::RunReport& report) {
  std::map<std::string, std::map<std::string, ChangedSite>> calls;  // by site and kind
  for (const sim::RankReport& rank : report.ranks) {
    for (const sim::CallRecord& call : rank.calls) {
      if (!gives_data(call)) continue;
      const std::string& kind = call.group->kind;
      add_calls(calls[call.site.name][kind],
                {.site = call.site.name, .operations = {call.operation}, .places = call.group->size()});
    }
  }
  std::vector<ChangedSite> all;
  for (const auto& [site, of_kinds] : calls) {
    all.emplace_back();
    for (const auto& [kind, of_kind] : of_kinds) add_calls(all.back(), of_kind);
    if (of_kinds.size() == 1 || setting.text) continue;
    for (const auto& [kind, of_kind] : of_kinds) {
      all.push_back(of_kind);
      all.back().kind = kind;
    }
  }
  if (setting.text || !bench.takes_faults_of_kernels()) return all;
  for (const std::string& kernel : kernel_names()) all.push_back({.site = kernel});
  return all;
}

}  // namespace

std::set<std::string> differing(const sim::RunReport& one, const sim::RunReport& other) {
  std::set<std::string> names;
  for (const sim::RankReport& rank : one.ranks) {
    for (const sim::Published& tensor : rank.published) {
      const sim::Published* twin = other.find(rank.rank, tensor.name);
      if (twin == nullptr || !(*twin == tensor)) names.insert(tensor.name);
    }
  }
  return names;
}

bool bends(const Dimension& dimension) { return dimension.name == "steps" || dimension.name == "clip"; }

std::vector<CaseSetting> larger_settings(Bench& bench, const Case& the_case, const CaseSetting& setting,
                                         const sim::RunReport& report) {
  constexpr std::int64_t kSize = 3;
  const std::size_t calls = calls_of(report);
  std::vector<CaseSetting> larger = {setting};
  for (const Dimension& dimension : the_case.dimensions()) {
    CaseSetting other = larger.back();
    std::int64_t& size = other.dimensions[dimension.name];
    const std::int64_t raised = std::min(kSize, dimension.most);
    if (dimension.is_an_axis || dimension.least == 0 || bends(dimension) || size >= raised) continue;
    size = raised;
    const auto run = fit_run(bench, the_case, other);
    if (run != nullptr && calls_of(*run) == calls) larger.push_back(std::move(other));
  }
  larger.erase(larger.begin());
  std::ranges::reverse(larger);
  return larger;
}

std::string text_of_larger(const CaseSetting& larger, const CaseSetting& setting) {
  std::vector<std::string> sizes;
  for (const auto& [name, value] : larger.dimensions) {
    if (setting[name] != value) sizes.push_back(fmt::format("{} {}", name, value));
  }
  return fmt::format("{}", fmt::join(sizes, ", "));
}

bool makes_all_right(Bench& bench, const ComparedRun& run, std::vector<Fault> planted,
                     const std::vector<Fault>& on_top) {
  planted.insert(planted.end(), on_top.begin(), on_top.end());
  bench.plant(std::move(planted));
  const std::shared_ptr<const sim::RunReport> repaired = bench.run(run.the_case, run.setting);
  if (!repaired->ok() || repaired->run_hash == run.report.run_hash) return false;
  const auto outputs = bench.outputs_of(run.the_case, run.setting);
  if (!check_outputs(*repaired, *outputs, run.setting.dtype).empty()) return false;
  const ComparedRun compared{run.the_case, run.setting, *repaired, run.number, run.serial, run.inputs};
  const WrongTensors left = wrong_tensors(compared);
  return left.wrong.empty() && left.right.size() == outputs->size();
}

Repair find_repair(Bench& bench, const ComparedRun& run, const WrongTensors& tensors, const ChangedSite& site,
                   const std::vector<Fault>& planted, FaultWhere where) {
  std::vector<Repair> repairs;
  where.group = site.kind;
  if (site.is_kernel()) {
    add_repairs_of_kernel(site, where, repairs);
  } else {
    add_repairs_of_call(run, tensors, site, site.name(), where, repairs);
  }
  for (Repair& repair : repairs) {
    if (makes_all_right(bench, run, planted, repair.faults)) return std::move(repair);
  }
  return {};
}

Repair find_shared_repair(Bench& bench, const ComparedRun& run, const WrongTensors& tensors,
                          std::vector<ChangedSite> sites, const std::vector<Fault>& planted) {
  const auto is_right_with = [&](const std::vector<ChangedSite>& changed, const Repair& repair) {
    return makes_all_right(bench, run, planted, at_each(changed, repair.faults));
  };
  std::vector<Repair> repairs;
  for (const ChangedSite& site : sites) add_repairs_of_call(run, tensors, site, "{}", {}, repairs);
  std::set<std::string> tried;
  for (const Repair& repair : repairs) {
    if (!tried.insert(repair.says).second || !is_right_with(sites, repair)) continue;
    for (std::size_t i = sites.size(); i-- > 0;) {
      std::vector<ChangedSite> fewer = sites;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      if (is_right_with(fewer, repair)) sites = std::move(fewer);
    }
    std::vector<std::string> names;
    for (const ChangedSite& site : sites) names.push_back(site.name());
    return {at_each(sites, repair.faults),
            fmt::format(fmt::runtime(repair.says), fmt::format("each of {}", fmt::join(names, ", ")))};
  }
  return {};
}

std::string one_of(const std::vector<ChangedSite>& sites) {
  if (sites.empty() || sites.size() > kMostNamedSites) return "";
  std::vector<std::string> names;
  for (const ChangedSite& site : sites) names.push_back(site.name());
  return fmt::format("{}", fmt::join(names, " or "));
}

bool has_site(const std::vector<ChangedSite>& sites, const std::string& site) {
  return std::ranges::any_of(sites, [&](const ChangedSite& one) { return one.site == site; });
}

ChangedSites::ChangedSites(Bench& bench, const Case& the_case, const CaseSetting& setting,
                           const sim::RunReport& report)
    : bench_(bench),
      planted_(bench.faults()),
      run_(compared_run(bench, the_case, setting, report)),
      tensors_(wrong_tensors(run_)) {}

Bench& ChangedSites::bench() {
  bench_.plant(planted_);
  return bench_;
}

std::shared_ptr<const sim::RunReport> ChangedSites::run_with(const ChangedSite& site, const char* change,
                                                             const FaultWhere& where) {
  const std::shared_ptr<const sim::RunReport> run = changed_run(run_.setting, site, change, where);
  return run != nullptr && run->ok() ? run : nullptr;
}

/// Returns the run with a change, which may break a contract; or null, where no call has it.
std::shared_ptr<const sim::RunReport> ChangedSites::changed_run(const CaseSetting& setting,
                                                                const ChangedSite& site, const char* change,
                                                                const FaultWhere& where) {
  std::vector<Fault> faults = planted_;
  faults.push_back(parsed_fault(site.site + ":" + change));  // behind the others, nearest to the group
  faults.back().where = where;
  faults.back().where.group = site.kind;
  const std::shared_ptr<std::atomic<std::int64_t>> met = faults.back().met;
  bench_.plant(std::move(faults));
  const std::shared_ptr<const sim::RunReport> run = bench_.run(run_.the_case, setting);
  return *met > 0 ? run : nullptr;
}

ChangedSites::Names ChangedSites::reached_at(const CaseSetting& setting, const ChangedSite& site,
                                             const FaultWhere& where) {
  const std::shared_ptr<const sim::RunReport> before = bench().run(run_.the_case, setting);
  const std::shared_ptr<const sim::RunReport> changed = changed_run(setting, site, "scale=3", where);
  const bool is_fit = before->ok() && changed != nullptr && changed->ok();
  return is_fit ? differing(*before, *changed) : Names();
}

ChangedSites::Names ChangedSites::wrong_at(const CaseSetting& setting) {
  const std::shared_ptr<const sim::RunReport> run = fit_run(bench(), run_.the_case, setting);
  Names names;
  if (run == nullptr) return names;
  const ComparedRun compared = compared_run(bench_, run_.the_case, setting, *run);
  for (const WrongTensor& tensor : wrong_tensors(compared).wrong) names.insert(tensor.output.name);
  return names;
}

ChangedSites::Names ChangedSites::changed_by(const sim::RunReport& changed) const {
  return differing(run_.report, changed);
}

void ChangedSites::take_changed(ChangedSite site, bool reaches_none) {
  if (site.is_kernel()) {
    if (reaches_none) zero_.push_back(site);
  } else {
    if (reaches_none && !has_site(unused_, site.site) && is_unused(site, {})) unused_.push_back(site);
    // A block that should have gone to another rank may be all that is wrong, and have no multiple.
    if (!site.reaches_all) {
      unscaled_.push_back(site);
      unscaled_.back().changed = nullptr;
    }
  }
  sites_.push_back(std::move(site));
}

void ChangedSites::change_all() {
  Names wrong;
  for (const WrongTensor& tensor : tensors_.wrong) {
    if (!tensor.has_no_value()) wrong.insert(tensor.output.name);
  }
  for (ChangedSite& site : sites_of_run(bench_, run_.setting, run_.report)) {
    site.changed = run_with(site, site.is_kernel() ? "zero" : "scale=3");
    if (site.changed == nullptr) {
      if (!site.is_kernel()) unscaled_.push_back(std::move(site));
      continue;
    }
    const Names reached = changed_by(*site.changed);
    site.reaches_all = !wrong.empty() && std::ranges::includes(reached, wrong);
    site.others = reached.size() - std::min(reached.size(), wrong.size());
    take_changed(std::move(site), reached.empty());
  }
  std::ranges::stable_sort(sites_, [](const ChangedSite& a, const ChangedSite& b) {
    return a.reaches_all != b.reaches_all ? a.reaches_all : a.reaches_all && a.others < b.others;
  });
}

bool ChangedSites::is_unused(const ChangedSite& site, const FaultWhere& where) {
  const auto changed = run_with(site, "nan", where);
  return changed != nullptr && changed_by(*changed).empty();
}

const std::vector<CaseSetting>& ChangedSites::other_settings() {
  constexpr std::uint64_t kSeeds = 8;
  if (!other_settings_.empty()) return other_settings_;
  other_settings_ = larger_settings(bench(), run_.the_case, run_.setting, run_.report);
  for (std::uint64_t more = 1; more <= kSeeds; ++more) {
    other_settings_.push_back(run_.setting);
    other_settings_.back().seed += more;
  }
  return other_settings_;
}

CaseSetting ChangedSites::largest_setting() {
  if (run_.setting.text) return run_.setting;
  const CaseSetting& largest = other_settings().front();
  return largest.seed == run_.setting.seed ? largest : run_.setting;
}

std::vector<ChangedSite> ChangedSites::in_any_setting(std::vector<ChangedSite> sites,
                                                      const FaultWhere& where) {
  if (run_.setting.text || sites.empty()) return sites;
  for (const CaseSetting& other : other_settings()) {
    if (sites.empty()) break;
    const std::shared_ptr<const sim::RunReport> before = bench().run(run_.the_case, other);
    if (!before->ok()) continue;
    std::erase_if(sites, [&](const ChangedSite& site) {
      const auto matters = [&](const char* change) {
        const auto changed = changed_run(other, site, change, where);
        return changed != nullptr && (!changed->ok() || !differing(*before, *changed).empty());
      };
      // Of ids none is no number, and a multiple may be refused; and of zeros no multiple differs.
      return site.is_kernel() ? matters("zero") : matters("scale=3") || matters("nan");
    });
  }
  return not_in_right_runs(std::move(sites), where);
}

std::vector<ChangedSite> ChangedSites::not_in_right_runs(std::vector<ChangedSite> sites,
                                                         const FaultWhere& where) {
  for (const CaseSetting& right : right_settings()) {
    if (sites.empty()) break;
    const std::shared_ptr<const sim::RunReport> before = bench().run(run_.the_case, right);
    std::erase_if(sites, [&](const ChangedSite& site) {
      const auto changed = changed_run(right, site, site.is_kernel() ? "zero" : "scale=3", where);
      return changed != nullptr && changed->ok() && differing(*before, *changed).empty();
    });
  }
  return sites;
}

const std::vector<CaseSetting>& ChangedSites::right_settings() {
  constexpr std::size_t kMost = 4;
  constexpr std::uint64_t kSeeds = 4;
  if (knows_right_) return right_settings_;
  knows_right_ = true;
  if (!run_.the_case.stretches(run_.setting).empty()) return right_settings_;  // each run takes long
  const auto take = [&](const CaseSetting& setting) {
    const bool is_fit = fit_run(bench(), run_.the_case, setting) != nullptr;
    if (is_fit && wrong_at(setting).empty()) right_settings_.push_back(setting);
  };
  const CaseSetting largest = largest_setting();
  for (const Dimension& dimension : run_.the_case.dimensions()) {
    if (dimension.is_an_axis || largest[dimension.name] == dimension.least) continue;
    CaseSetting other = largest;
    other.dimensions[dimension.name] = dimension.least;
    if (right_settings_.size() < kMost) take(other);
  }
  CaseSetting other = largest;
  for (std::uint64_t more = 0; more < kSeeds && right_settings_.size() < kMost; ++more) {
    ++other.seed;
    take(other);
  }
  return right_settings_;
}

const ValuesBySite& ChangedSites::values() {
  if (values_.empty()) {
    values_ = call_values(bench(), run_.the_case, run_.setting, WatchedSide::program);
  }
  return values_;
}

}  // namespace verify
