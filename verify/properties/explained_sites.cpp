#include "verify/properties/explained_sites.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "verify/faults/faulty_device.h"
#include "verify/output/phrases.h"
#include "verify/properties/call_values.h"
#include "verify/properties/explained_repairs.h"
#include "verify/properties/reached_sites.h"
#include "verify/properties/repeated_inputs.h"
#include "verify/properties/wrong_tensor.h"

namespace verify {

namespace {

using Names = std::set<std::string>;

/// More sites than these cannot be told apart, and are not named.
constexpr std::size_t kMostSites = 3;

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

/// Returns the tensors that differ between two runs on some rank.
Names differing(const sim::RunReport& one, const sim::RunReport& other) {
  Names names;
  for (const sim::RankReport& rank : one.ranks) {
    for (const sim::Published& tensor : rank.published) {
      const sim::Published* twin = other.find(rank.rank, tensor.name);
      if (twin == nullptr || !(*twin == tensor)) names.insert(tensor.name);
    }
  }
  return names;
}

std::size_t calls_of(const sim::RunReport& report) {
  std::size_t calls = 0;
  for (const sim::RankReport& rank : report.ranks) calls += rank.calls.size();
  return calls;
}

/// Whether a dimension makes the result of a training no linear function of its calls: a second step, and a
/// norm by which gradients are clipped.
bool bends(const Dimension& dimension) { return dimension.name == "steps" || dimension.name == "clip"; }

/// Returns the setting with one size after another raised, where that leaves the number of calls as it is,
/// the largest first. A size is what is counted from 1 on. Steps are none: behind a second one an update
/// reaches all gradients.
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
  std::reverse(larger.begin(), larger.end());
  return larger;
}

/// Returns the sizes that are larger: "sequence 3, hidden 3".
std::string text_of_larger(const CaseSetting& larger, const CaseSetting& setting) {
  std::vector<std::string> sizes;
  for (const auto& [name, value] : larger.dimensions) {
    if (setting[name] != value) sizes.push_back(fmt::format("{} {}", name, value));
  }
  return fmt::format("{}", fmt::join(sizes, ", "));
}

/// Whether no element of a tensor has a value: then no change reaches it visibly.
bool has_no_value(const WrongTensor& tensor) {
  return std::none_of(tensor.got.begin(), tensor.got.end(), [](const sim::Field& x) {
    for (std::size_t level = 0; level < sim::kFieldLevels; ++level) {
      if (x.is_live(level)) return true;
    }
    return false;
  });
}

/// Whether an element of a tensor has no value, and the serial one has.
bool lacks_a_value(const WrongTensor& tensor) {
  for (std::size_t i = 0; i < tensor.got.size(); ++i) {
    bool got = false, serial = false;
    for (std::size_t level = 0; level < sim::kFieldLevels; ++level) {
      got = got || tensor.got[i].is_live(level);
      serial = serial || tensor.serial.data()[i].is_live(level);
    }
    if (serial && !got) return true;
  }
  return false;
}

/// Returns "'mlp.forward' or 'device.matmul'"; "" for none, and where there are too many to tell.
std::string one_of(const std::vector<ChangedSite>& sites) {
  if (sites.empty() || sites.size() > kMostSites) return "";
  std::vector<std::string> names;
  for (const ChangedSite& site : sites) names.push_back(site.name());
  return fmt::format("{}", fmt::join(names, " or "));
}

bool has_site(const std::vector<ChangedSite>& sites, const std::string& site) {
  return std::any_of(sites.begin(), sites.end(), [&](const ChangedSite& one) { return one.site == site; });
}

class SiteSearch {
 public:
  SiteSearch(Bench& bench, const Case& the_case, const CaseSetting& setting, const sim::RunReport& report)
      : bench_(bench),
        planted_(bench.faults()),
        run_(compared_run(bench, the_case, setting, report)),
        tensors_(wrong_tensors(run_)) {}
  ~SiteSearch() { bench_.plant(planted_); }
  SiteSearch(const SiteSearch&) = delete;
  SiteSearch& operator=(const SiteSearch&) = delete;

  std::string said() {
    if (tensors_.wrong.empty()) return "";
    const WrongTensor& first = tensors_.wrong.front();
    if (first.is_of_some_ranks()) ranks_ = first.wrong_ranks;
    change_all();
    std::string repairs = text_of_repairs();
    if (!repairs.empty()) return repairs;
    std::vector<std::string> phrases;
    const auto say = [&](std::string phrase) {
      if (!phrase.empty()) phrases.push_back(std::move(phrase));
    };
    say(text_of_repeated());
    say(text_of_zero());
    const bool has_zeros = !phrases.empty();
    say(text_of_zero_results());
    if (!has_zeros) say(text_of_unused());  // where a kernel gives only zeros, nothing uses what it is given
    say(text_of_hidden());
    if (phrases.empty() && !run_.setting.text) say(text_of_one_layer());
    if (phrases.empty() && has_few_changes()) say(text_of_one_rank());
    if (phrases.empty()) say(text_of_reaching());
    return fmt::format("{}", fmt::join(phrases, "; "));
  }

 private:
  std::shared_ptr<const sim::RunReport> run_with(const ChangedSite& site, const char* change,
                                                 const FaultWhere& where = {}) {
    return run_with(run_.setting, site, change, where);
  }
  std::shared_ptr<const sim::RunReport> run_with(const CaseSetting& setting, const ChangedSite& site,
                                                 const char* change, const FaultWhere& where) {
    const std::shared_ptr<const sim::RunReport> run = changed_run(setting, site, change, where);
    return run != nullptr && run->ok() ? run : nullptr;
  }
  /// Returns the run with a change, which may break a contract; or null, where no call has it.
  std::shared_ptr<const sim::RunReport> changed_run(const CaseSetting& setting, const ChangedSite& site,
                                                    const char* change, const FaultWhere& where) {
    std::vector<Fault> faults = planted_;
    faults.push_back(parsed_fault(site.site + ":" + change));  // behind the others, nearest to the group
    faults.back().where = where;
    faults.back().where.group = site.kind;
    const std::shared_ptr<std::atomic<std::int64_t>> met = faults.back().met;
    bench_.plant(std::move(faults));
    const std::shared_ptr<const sim::RunReport> run = bench_.run(run_.the_case, setting);
    return *met > 0 ? run : nullptr;
  }

  /// Changes the results of one site after another.
  void change_all() {
    Names wrong;
    for (const WrongTensor& tensor : tensors_.wrong) {
      if (!has_no_value(tensor)) wrong.insert(tensor.output.name);
    }
    for (ChangedSite& site : sites_of_run(bench_, run_.setting, run_.report)) {
      site.changed = run_with(site, site.is_kernel() ? "zero" : "scale=3");
      if (site.changed == nullptr) {
        if (!site.is_kernel()) unscaled_.push_back(std::move(site));
        continue;
      }
      const Names reached = differing(run_.report, *site.changed);
      site.reaches_all =
          !wrong.empty() && std::includes(reached.begin(), reached.end(), wrong.begin(), wrong.end());
      site.others = reached.size() - std::min(reached.size(), wrong.size());
      if (site.is_kernel() && reached.empty()) zero_.push_back(site);
      if (!site.is_kernel() && reached.empty() && !has_site(unused_, site.site) && is_unused(site, {}))
        unused_.push_back(site);
      // A block that should have gone to another rank may be all that is wrong, and have no multiple.
      if (!site.is_kernel() && !site.reaches_all) {
        unscaled_.push_back(site);
        unscaled_.back().changed = nullptr;
      }
      sites_.push_back(std::move(site));
    }
    std::stable_sort(sites_.begin(), sites_.end(), [](const ChangedSite& a, const ChangedSite& b) {
      return a.reaches_all != b.reaches_all ? a.reaches_all : a.reaches_all && a.others < b.others;
    });
  }

  /// Whether no tensor differs when the first element of a result is no number, which is another one even
  /// where the result is zero.
  bool is_unused(const ChangedSite& site, const FaultWhere& where) {
    const auto changed = run_with(site, "nan", where);
    return changed != nullptr && differing(run_.report, *changed).empty();
  }

  /// Returns settings that show more of the same calls: at larger sizes, and with other seeds.
  std::vector<CaseSetting> other_settings() {
    constexpr std::uint64_t kSeeds = 8;
    bench_.plant(planted_);
    std::vector<CaseSetting> others = larger_settings(bench_, run_.the_case, run_.setting, run_.report);
    for (std::uint64_t more = 1; more <= kSeeds; ++more) {
      others.push_back(run_.setting);
      others.back().seed += more;
    }
    return others;
  }

  const std::vector<CaseSetting>& known_other_settings() {
    if (other_settings_.empty()) other_settings_ = other_settings();
    return other_settings_;
  }

  /// Returns the largest of the other settings, or that of the run where there is none. A text has one size.
  CaseSetting largest_setting() {
    if (run_.setting.text) return run_.setting;
    const CaseSetting& largest = known_other_settings().front();
    return largest.seed == run_.setting.seed ? largest : run_.setting;
  }

  /// Removes the sites at which a change does change something in other settings: what is not used with one
  /// seed, as a gradient of rows that no id asks for, need not be wrong, nor the gradient of a softmax that
  /// is zero because there is one key. Of too many sites none is told.
  std::vector<ChangedSite> in_any_setting(std::vector<ChangedSite> sites, const FaultWhere& where) {
    if (run_.setting.text || sites.empty()) return sites;
    for (const CaseSetting& other : known_other_settings()) {
      if (sites.empty()) break;
      bench_.plant(planted_);
      const std::shared_ptr<const sim::RunReport> before = bench_.run(run_.the_case, other);
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
    return sites;
  }

  /// A repair, with the ranks on which it makes all right.
  struct RepairOnRanks {
    std::string text;
    std::vector<Fault> faults;  // on top of those that are planted
  };

  /// Tries the sites that reach all that is wrong, and every kernel, because a kernel that is made zero may
  /// reach less than one that is changed in another way. Several changes may make all right.
  std::string text_of_repairs() {
    std::vector<RepairOnRanks> repairs;
    std::vector<ChangedSite> repaired;
    for (const ChangedSite& site : sites_) {
      if ((!site.reaches_all && !site.is_kernel()) || has_site(repaired, site.site)) continue;
      RepairOnRanks found = repair(site);
      if (found.text.empty()) continue;
      repairs.push_back(std::move(found));
      repaired.push_back(site);
      if (repairs.size() == kMostSites) break;
    }
    for (const ChangedSite& site : unscaled_) {
      if (!repairs.empty()) break;
      RepairOnRanks found = repair_on_all_ranks(site);
      if (!found.text.empty()) repairs.push_back(std::move(found));
    }
    if (repairs.empty() && !run_.setting.text) repairs = shared_repairs();
    keep_those_that_hold(repairs);
    std::vector<std::string> texts;
    for (const RepairOnRanks& one : repairs) texts.push_back(one.text);
    return fmt::format("{}", fmt::join(texts, ", and also "));
  }

  /// Tries the same change at all sites of one operation: a function that they share may be wrong.
  std::vector<RepairOnRanks> shared_repairs() {
    constexpr std::size_t kMostShared = 12;
    Names wrong;
    for (const WrongTensor& tensor : tensors_.wrong) wrong.insert(tensor.output.name);
    std::map<std::pair<std::set<sim::Operation>, int>, std::vector<ChangedSite>> alike;
    for (const ChangedSite& site : sites_) {
      if (site.is_kernel() || !site.kind.empty()) continue;
      const Names reached = differing(run_.report, *site.changed);
      const auto is_wrong = [&](const std::string& name) { return wrong.contains(name); };
      if (std::any_of(reached.begin(), reached.end(), is_wrong))
        alike[{site.operations, site.places}].push_back(site);
    }
    for (const auto& [kind, sites] : alike) {
      if (sites.size() < 2 || sites.size() > kMostShared) continue;
      const Repair found = find_shared_repair(bench_, run_, tensors_, sites, planted_);
      if (!found.is_none())
        return {{fmt::format("all is right if {} on all ranks", found.says), found.faults}};
    }
    return {};
  }

  /// Keeps the repairs that make all right with other seeds, too, and of several those that do so at larger
  /// sizes, on which the number of a repair may depend.
  void keep_those_that_hold(std::vector<RepairOnRanks>& repairs) {
    constexpr int kEnough = 3;
    if (run_.setting.text) return;
    int seeds = 0;
    for (const CaseSetting& other : known_other_settings()) {
      const bool is_of_seed = other.seed != run_.setting.seed;
      if (repairs.empty() || seeds == kEnough) return;
      if (repairs.size() == 1 && !is_of_seed) continue;
      bench_.plant(planted_);
      const std::shared_ptr<const sim::RunReport> report = fit_run(bench_, run_.the_case, other);
      if (report == nullptr) continue;
      const ComparedRun run = compared_run(bench_, run_.the_case, other, *report);
      if (wrong_tensors(run).wrong.empty()) continue;
      std::vector<RepairOnRanks> holding;
      for (const RepairOnRanks& one : repairs) {
        if (makes_all_right(bench_, run, planted_, one.faults)) holding.push_back(one);
      }
      if (is_of_seed || !holding.empty()) repairs = std::move(holding);
      if (is_of_seed) ++seeds;
    }
  }

  /// Changes all ranks first, and then the wrong ones alone, where others are right, or one of each group.
  RepairOnRanks repair(const ChangedSite& site) {
    RepairOnRanks found = repair_on_all_ranks(site);
    if (!found.text.empty() || site.is_kernel()) return found;
    if (ranks_.empty())
      return run_.setting.text ? RepairOnRanks() : repair_at_one_place(site);  // of a text each takes long
    const Repair of_wrong = repair_at(site, {.ranks = {ranks_.begin(), ranks_.end()}});
    if (of_wrong.is_none()) return {};
    return {fmt::format("all is right if {} on {}", of_wrong.says,
                        text_of_ranks(ranks_, run_.report.ranks.size())),
            of_wrong.faults};
  }
  RepairOnRanks repair_on_all_ranks(const ChangedSite& site) {
    const Repair found = find_repair(bench_, run_, tensors_, site, planted_, {});
    if (found.is_none()) return {};
    return {fmt::format("all is right if {} on all ranks", found.says), found.faults};
  }
  Repair repair_at(ChangedSite site, const FaultWhere& where) {
    site.changed = run_with(site, "scale=3", where);
    return site.changed == nullptr ? Repair() : find_repair(bench_, run_, tensors_, site, planted_, where);
  }
  /// What is summed afterwards may be repaired on any rank of the group: all that would do are named.
  RepairOnRanks repair_at_one_place(const ChangedSite& site) {
    std::vector<std::pair<Repair, std::vector<int>>> repairs;  // each with its places
    for (int place = 0; place < site.places; ++place) {
      Repair found = repair_at(site, {.place = place});
      if (found.is_none()) continue;
      if (repairs.empty() || repairs.back().first.says != found.says)
        repairs.push_back({std::move(found), {}});
      repairs.back().second.push_back(place);
    }
    RepairOnRanks all;
    for (const auto& [found, places] : repairs) {
      all.text += fmt::format("{} if {} on rank {} of each group", all.text.empty() ? "all is right" : ", or",
                              found.says, fmt::join(places, " or "));
      if (all.faults.empty()) all.faults = found.faults;
    }
    return all;
  }

  /// The experiment does not tell a result that is zero from one that nobody uses, nor whether a right run
  /// has it, too.
  static std::string text_of_zeros(const std::string& sites, const std::string& ranks) {
    return fmt::format("every result of {} is zero or is not used on {}: zeros in its place change no tensor",
                       sites, ranks);
  }

  std::string text_of_zero() {
    const std::string sites = one_of(in_any_setting(that_reach_the_first(zero_, {}), {}));
    return sites.empty() ? "" : text_of_zeros(sites, "all ranks");
  }

  /// Removes the kernels of which no result reaches the first wrong tensor, as an element that is no number
  /// would: what they give is no reason for it.
  std::vector<ChangedSite> that_reach_the_first(std::vector<ChangedSite> kernels, const FaultWhere& where) {
    const WrongTensor& first = tensors_.wrong.front();
    if (has_no_value(first)) return kernels;
    std::erase_if(kernels, [&](const ChangedSite& kernel) {
      const auto changed = run_with(kernel, "nan", where);
      return changed != nullptr && !differing(run_.report, *changed).contains(first.output.name);
    });
    return kernels;
  }

  /// Calls whose results are zero on some ranks, although ranks give them something else. Of parts that
  /// differ from rank to rank, some may well be zero.
  std::string text_of_zero_results() {
    std::map<std::set<int>, std::vector<ChangedSite>> sites_of;
    for (const auto& [site, of_ranks] : values()) {
      std::set<int> zero;
      bool gives_a_value = false, gets_parts = false;
      std::size_t getting = 0;
      for (int rank = 0; rank < std::ssize(of_ranks); ++rank) {
        const CallValues& values = of_ranks[static_cast<std::size_t>(rank)];
        gives_a_value = gives_a_value || values.gives_a_value;
        gets_parts = gets_parts || values.gets_a_part;
        getting += values.gets ? 1 : 0;
        if (values.gets && !values.gets_a_value) zero.insert(rank);
      }
      const bool is_natural = gets_parts && zero.size() < getting;
      if (gives_a_value && !zero.empty() && !is_natural) sites_of[zero].push_back({.site = site});
    }
    std::vector<std::string> phrases;
    for (const auto& [ranks, sites] : sites_of) {
      const std::string named = one_of(sites);
      if (named.empty()) continue;
      phrases.push_back(fmt::format("every result of {} is zero on {}, and what ranks give to it is not",
                                    named, text_of_ranks(ranks, run_.report.ranks.size())));
    }
    return phrases.size() <= kMostSites ? fmt::format("{}", fmt::join(phrases, "; ")) : "";
  }

  /// Behind a result that is no number nothing shows, and a site that seems unused need not be.
  std::string text_of_unused() {
    if (has_no_value(tensors_.wrong.front())) return "";
    const std::string sites = one_of(in_any_setting(unused_, {}));
    return sites.empty() ? "" : fmt::format("the result of {} is used on no rank, or comes too late", sites);
  }

  /// Sites that give no number already: one more, or an element that is not written, changes nothing.
  std::string text_of_hidden() {
    if (!lacks_a_value(tensors_.wrong.front())) return "";
    std::vector<ChangedSite> hidden;
    for (const ChangedSite& site : sites_) {
      if (site.is_kernel() || !site.kind.empty()) continue;
      const auto changes_nothing = [&](const char* change) {
        const auto changed = run_with(site, change);
        return changed != nullptr && differing(run_.report, *changed).empty();
      };
      if (changes_nothing("nan") || changes_nothing("truncate=1")) hidden.push_back(site);
    }
    if (hidden.size() > kMostSites) hidden = {first_called(hidden)};
    const std::string sites = one_of(hidden);
    return sites.empty()
               ? ""
               : fmt::format("one more element of {} that is no number, on all ranks, changes nothing",
                             sites);
  }

  /// Calls that are given again what the call before them was given, where that may be what is wrong: a site
  /// whose result reaches less than what is wrong is not meant. A send has no result to change.
  std::string text_of_repeated() {
    const CaseSetting setting = largest_setting();
    // In the smallest setting different tokens may well leave the same. In a larger one, of as many calls,
    // even one number that is the same again is no chance, and neither are a few ids.
    const bool is_larger = !(setting == run_.setting);
    const ComparedInputs compared =
        is_larger ? ComparedInputs{.least_numbers = 1, .least_ids = 4} : ComparedInputs{};
    bench_.plant(planted_);
    std::vector<std::string> phrases;
    for (const RepeatedInput& repeated : repeated_inputs(bench_, run_.the_case, setting, compared)) {
      const auto changed = std::find_if(sites_.begin(), sites_.end(), [&](const auto& site) {
        return site.name() == ChangedSite{.site = repeated.site}.name();
      });
      if (changed != sites_.end() && !changed->reaches_all) continue;
      phrases.push_back(fmt::format("call {} of '{}' on {} has the input of the call before it",
                                    repeated.call, repeated.site,
                                    text_of_ranks(repeated.ranks, run_.report.ranks.size())));
    }
    return phrases.size() <= kMostSites ? fmt::format("{}", fmt::join(phrases, "; ")) : "";
  }

  /// Whether a rank gets a result at a site: the root of a broadcast gets none.
  bool gets_a_result(const std::string& site, int rank) {
    const auto of_ranks = values().find(site);
    return of_ranks != values().end() && of_ranks->second[static_cast<std::size_t>(rank)].gets;
  }

  /// Whether a rank gets a result that is not zero, here or in another setting: a part of padding never is.
  bool gets_a_value(const std::string& site, int rank) {
    const auto has_one = [&](const ValuesBySite& values) {
      const auto of_ranks = values.find(site);
      return of_ranks != values.end() && of_ranks->second[static_cast<std::size_t>(rank)].gets_a_value;
    };
    if (has_one(values())) return true;
    const std::vector<CaseSetting>& others = known_other_settings();
    return std::any_of(others.begin(), others.end(), [&](const CaseSetting& other) {
      bench_.plant(planted_);
      return fit_run(bench_, run_.the_case, other) != nullptr &&
             has_one(call_values(bench_, run_.the_case, other, WatchedSide::program));
    });
  }

  /// Returns what the program gives to the calls of the run, and gets from them.
  const ValuesBySite& values() {
    if (values_.empty()) {
      bench_.plant(planted_);
      values_ = call_values(bench_, run_.the_case, run_.setting, WatchedSide::program);
    }
    return values_;
  }

  /// Whether each site can be changed on each rank: a training has many of both.
  bool has_few_changes() const {
    constexpr std::ptrdiff_t kMostChanges = 200;
    const auto sites =
        std::count_if(sites_.begin(), sites_.end(), [](const auto& site) { return site.kind.empty(); });
    return run_.setting.group_size * sites <= kMostChanges;
  }

  /// The calls of one layer alone may be wrong, where those of a site are made in several.
  std::string text_of_one_layer() {
    constexpr std::int64_t kMostLayers = 4;
    for (ChangedSite site : sites_) {
      if (site.is_kernel() || !site.kind.empty() || !site.reaches_all) continue;
      std::map<std::int64_t, std::shared_ptr<const sim::RunReport>> of_layers;
      for (std::int64_t layer = 0; layer < kMostLayers; ++layer) {
        if (auto changed = run_with(site, "scale=3", {.layer = layer})) of_layers[layer] = std::move(changed);
      }
      if (of_layers.size() < 2) continue;
      for (const auto& [layer, changed] : of_layers) {
        site.changed = changed;
        const std::string said = text_of_layer(site, layer);
        if (!said.empty()) return said;
      }
    }
    return "";
  }
  std::string text_of_layer(const ChangedSite& site, std::int64_t layer) {
    const FaultWhere where{.layer = layer};
    const bool is_without_use = differing(run_.report, *site.changed).empty() && is_unused(site, where) &&
                                !in_any_setting({site}, where).empty();
    if (is_without_use)
      return fmt::format("the result of {} in layer {} is used on no rank, or comes too late", site.name(),
                         layer);
    const Repair repair = find_repair(bench_, run_, tensors_, site, planted_, where);
    return repair.is_none() ? ""
                            : fmt::format("all is right if {} in layer {} on all ranks", repair.says, layer);
  }

  /// The result of a call may be unused, or that of a kernel zero, on one rank alone.
  std::string text_of_one_rank() {
    std::vector<ChangedSite> late;  // what they give to a rank is padding
    for (int rank = 0; rank < run_.setting.group_size; ++rank) {
      std::vector<ChangedSite> unused, zero;
      for (const ChangedSite& site : sites_) {
        if (!site.kind.empty()) continue;
        if (!site.is_kernel() && !gets_a_result(site.site, rank)) continue;
        const auto changed = run_with(site, site.is_kernel() ? "zero" : "scale=3", {.ranks = {rank}});
        if (changed == nullptr || !differing(run_.report, *changed).empty()) continue;
        if (site.is_kernel()) zero.push_back(site);
        if (!site.is_kernel() && is_unused(site, {.ranks = {rank}})) unused.push_back(site);
      }
      zero = that_reach_the_first(std::move(zero), {.ranks = {rank}});
      if (const std::string sites = one_of(in_any_setting(zero, {.ranks = {rank}})); !sites.empty())
        return text_of_zeros(sites, fmt::format("rank {}", rank));
      unused = in_any_setting(std::move(unused), {.ranks = {rank}});
      std::erase_if(unused, [&](const ChangedSite& site) {
        if (gets_a_value(site.site, rank)) return false;
        if (is_late(site) && !has_site(late, site.site)) late.push_back(site);
        return true;
      });
      if (const std::string sites = one_of(unused); !sites.empty())
        return fmt::format("the result of {} is not used on rank {}, or comes too late", sites, rank);
    }
    const std::string sites = one_of(late);
    return sites.empty()
               ? ""
               : fmt::format("the result of {} does not reach {}: it is not used there, or comes too late",
                             sites, tensors_.wrong.front().output.name);
  }

  /// Whether the result of a call reaches right tensors, and not the first wrong one.
  bool is_late(const ChangedSite& site) const {
    const Names reached = site.changed == nullptr ? Names() : differing(run_.report, *site.changed);
    return !reached.empty() && !reached.contains(tensors_.wrong.front().output.name);
  }

  /// Returns the site that the first rank calls first.
  ChangedSite first_called(const std::vector<ChangedSite>& sites) const {
    for (const sim::CallRecord& call : run_.report.ranks.front().calls) {
      if (has_site(sites, call.site.name)) return {.site = call.site.name};
    }
    return sites.front();
  }

  /// Whether a call of a kernel reaches the first wrong tensor and nothing that is right. A call that reaches
  /// a right tensor, which may be its own result, is right.
  bool may_be_wrong(const ChangedSite& kernel) {
    constexpr std::int64_t kMostCalls = 16;
    Names wrong;
    for (const WrongTensor& tensor : tensors_.wrong) wrong.insert(tensor.output.name);
    for (std::int64_t call = 0; call < kMostCalls; ++call) {
      const auto changed = run_with(kernel, "zero", {.call = call});
      if (changed == nullptr) return false;  // there are no more calls
      const Names reached = differing(run_.report, *changed);
      const bool reaches_first = reached.contains(tensors_.wrong.front().output.name);
      if (reaches_first && std::includes(wrong.begin(), wrong.end(), reached.begin(), reached.end()))
        return true;
    }
    return true;
  }

  /// Where too many sites cannot be told apart, the calls among them may be few.
  std::string text_of_reaching() {
    std::vector<ChangedSite> sites, calls;
    for (const ChangedSite& site : sites_) {
      if (!site.reaches_all || site.others != sites_.front().others || has_site(sites, site.site)) continue;
      if (site.is_kernel() && site.others > 0 && !may_be_wrong(site)) continue;
      sites.push_back(site);
      if (!site.is_kernel()) calls.push_back(site);
    }
    const bool are_few = sites.size() <= kMostSites;
    const std::string named = one_of(are_few ? sites : calls);
    if (named.empty()) return "";
    return fmt::format("the wrong tensors are {} {} {}",
                       sites_.front().others == 0 ? "those that" : "among those that", named,
                       are_few ? "reaches" : "and several kernels reach: what is wrong may lie between them");
  }

  Bench& bench_;
  std::vector<Fault> planted_;
  ComparedRun run_;
  WrongTensors tensors_;
  std::set<int> ranks_;                // the wrong ones, where others are right
  std::vector<ChangedSite> sites_;     // those that reach all that is wrong first, and of them the closest
  std::vector<ChangedSite> unscaled_;  // calls whose results cannot be scaled, as counts of rows, or are zero
  std::vector<ChangedSite> unused_;
  std::vector<ChangedSite> zero_;
  ValuesBySite values_;                      // of values(), where they were needed
  std::vector<CaseSetting> other_settings_;  // of known_other_settings(), where they were needed
};

bool is_wrong(Bench& bench, const Case& the_case, const CaseSetting& setting) {
  const std::shared_ptr<const sim::RunReport> run = fit_run(bench, the_case, setting);
  return run != nullptr && !wrong_tensors(compared_run(bench, the_case, setting, *run)).wrong.empty();
}

/// An explanation does without what bends where something is wrong all the same.
std::string explain_without(Bench& bench, const Case& the_case, CaseSetting setting) {
  std::vector<std::string> without;
  for (const Dimension& dimension : the_case.dimensions()) {
    std::int64_t& value = setting.dimensions[dimension.name];
    if (!bends(dimension) || value == dimension.least) continue;
    const std::int64_t before = std::exchange(value, dimension.least);
    if (is_wrong(bench, the_case, setting)) {
      without.push_back(fmt::format("{} {}", dimension.name, value));
    } else {
      value = before;
    }
  }
  if (without.empty()) return "";
  const std::shared_ptr<const sim::RunReport> run = bench.run(the_case, setting);
  const std::string said = SiteSearch(bench, the_case, setting, *run).said();
  return said.empty() ? "" : fmt::format("with {}, {}", fmt::join(without, " and "), said);
}

/// What is wrong in the smallest setting may be too little to tell anything.
std::string explain_at_larger(Bench& bench, const Case& the_case, const CaseSetting& setting,
                              const sim::RunReport& report) {
  for (const CaseSetting& larger : larger_settings(bench, the_case, setting, report)) {
    if (!is_wrong(bench, the_case, larger)) continue;
    const std::shared_ptr<const sim::RunReport> run = bench.run(the_case, larger);
    const std::string said = SiteSearch(bench, the_case, larger, *run).said();
    return said.empty() ? "" : fmt::format("at {}: {}", text_of_larger(larger, setting), said);
  }
  return "";
}

}  // namespace

std::string explain_sites(Bench& bench, const Case& the_case, const CaseSetting& setting,
                          const sim::RunReport& report) {
  if (!setting.text) {
    std::string said = explain_without(bench, the_case, setting);
    if (!said.empty()) return said;
  }
  std::string said = SiteSearch(bench, the_case, setting, report).said();
  return said.empty() && !setting.text ? explain_at_larger(bench, the_case, setting, report) : said;
}

}  // namespace verify
