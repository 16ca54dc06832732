#include "verify/explain/explained_tensors.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <optional>

#include "sim/model/text_corpus.h"
#include "verify/explain/explained_calls.h"

namespace verify {

namespace {

const std::string kFactor = "factor";
const std::string kAnotherOption = "another option";
/// What fits fewer elements than these may fit because they are few.
constexpr std::size_t kManyElements = 4;

/// What fits a tensor, by the first recogniser that does.
struct Found {
  std::string text;
  Says says = Says::extent;
  std::string recogniser;
};

Found recognised(const WrongTensor& tensor, std::span<const Recogniser> recognisers, Says says,
                 ExperimentBudget& budget) {
  for (const Recogniser& recogniser : recognisers) {
    if (tensor.run->coincidences.contains(recogniser.name)) continue;
    std::string text = recogniser.explain(tensor, budget);
    if (!text.empty()) return {std::move(text), says, recogniser.name};
  }
  return {};
}

/// Whether all elements have one magnitude or are 0, in the tensor and in the serial one, as in a bias of
/// experts that is moved by the sign of a count: other tensors and other inputs give the same by chance.
bool has_few_values(const WrongTensor& tensor) {
  const sim::Field zero = sim::Field::of(0);
  sim::Field magnitude = zero;
  const auto is_of_few = [&](const sim::Field& x) {
    if (magnitude == zero) magnitude = x;
    return x == zero || x == magnitude || x == -magnitude;
  };
  const sim::Field* serial = tensor.serial.data();
  return std::ranges::all_of(tensor.got, is_of_few) &&
         std::all_of(serial, serial + tensor.serial.size(), is_of_few);
}

Found explain_one(const WrongTensor& tensor, ExperimentBudget& budget, bool has_experiments) {
  Found found = recognised(tensor, value_recognisers(), Says::cause, budget);
  if (found.text.empty() && has_experiments) found = recognised(tensor, experiments(), Says::cause, budget);
  const bool fits_anything = tensor.got.size() > 1 && has_few_values(tensor) && !is_a_choice(tensor);
  if (found.text.empty() && !fits_anything)
    found = recognised(tensor, partial_recognisers(), Says::part, budget);
  if (found.text.empty()) found.text = text_of_extent(tensor);
  return found;
}

bool is_experiment(const std::string& recogniser) {
  const auto all = experiments();
  return std::ranges::any_of(all, [&](const Recogniser& one) { return one.name == recogniser; });
}

/// Returns "output", or "output on rank 1 only" where it is right on others.
std::string name_of(const WrongTensor& tensor) {
  if (!tensor.is_of_some_ranks()) return tensor.output.name;
  return fmt::format("{}, on {} only", tensor.output.name,
                     text_of_ranks(tensor.wrong_ranks, tensor.ranks.size()));
}

/// At most this many tensors are named as right: of a whole training there are hundreds.
constexpr std::size_t kMostRight = 4;

std::string text_of_right(const std::vector<std::string>& right) {
  if (right.empty()) return "";
  if (right.size() <= kMostRight)
    return fmt::format("; before it, {} {} right", fmt::join(right, ", "), right.size() == 1 ? "is" : "are");
  const std::vector<std::string> last(right.end() - kMostRight, right.end());
  return fmt::format("; before it, {} and {} more are right", fmt::join(last, ", "),
                     right.size() - kMostRight);
}

/// Returns on which ranks alone tensors are wrong, if those of other ranks are known to be right.
std::string text_of_ranks_of_all(const std::vector<WrongTensor>& wrong) {
  std::set<int> ranks, all;
  std::size_t known = 0;
  for (const WrongTensor& tensor : wrong) {
    all.insert(tensor.ranks.begin(), tensor.ranks.end());
    if (!tensor.is_of_some_ranks()) continue;
    ranks.insert(tensor.wrong_ranks.begin(), tensor.wrong_ranks.end());
    ++known;
  }
  if (known == 0 || ranks.size() >= all.size()) return "";
  const auto first = std::ranges::find_if(wrong, [](const auto& t) { return t.is_of_some_ranks(); });
  return fmt::format("; of {}, only the part of {} is wrong", first->output.name,
                     text_of_ranks(ranks, all.size()));
}

std::string replicas_that_differ(const CaseSetting& setting, const sim::RunReport& report,
                                 const CaseOutput& output) {
  if (!output.part_of.empty()) return "";
  for (int rank = setting.group_size; rank < setting.group_size * setting.replicas; ++rank) {
    const int twin = rank % setting.group_size;
    if (*report.find(rank, output.name) == *report.find(twin, output.name)) continue;
    return fmt::format("{}: rank {} of another replica differs from rank {}, which was given the same",
                       output.name, rank, twin);
  }
  return "";
}

// ---- other settings

/// Whether a dimension is a size: what may be 0 or has two values at most is a choice.
bool is_a_size(const Dimension& dimension) {
  constexpr std::int64_t kManyValues = 16;
  if (dimension.is_an_axis) return false;
  return dimension.least > 0 ? dimension.most > dimension.least + 1 : dimension.most >= kManyValues;
}

/// The setting with its sizes raised to `size`, where they are smaller and not 0.
CaseSetting raised(const Case& the_case, const CaseSetting& setting, std::int64_t size,
                   const std::string& only = "") {
  CaseSetting larger = setting;
  for (const Dimension& dimension : the_case.dimensions()) {
    std::int64_t& value = larger.dimensions[dimension.name];
    if (!is_a_size(dimension) || value == 0 || (!only.empty() && dimension.name != only)) continue;
    value = std::max(value, std::min(size, dimension.most));
  }
  return larger;
}

/// Returns the sizes in which two settings differ: "tokens 3, hidden 3".
std::string text_of_sizes(const CaseSetting& other, const CaseSetting& setting) {
  std::vector<std::string> sizes;
  if (other.group_size != setting.group_size)
    sizes.push_back(fmt::format("{} {}", name_of(other.ranks), other.group_size));
  for (const auto& [name, value] : other.dimensions) {
    if (setting.dimensions.at(name) != value) sizes.push_back(fmt::format("{} {}", name, value));
  }
  return fmt::format("{}", fmt::join(sizes, ", "));
}

/// Returns settings at which a mistake of which little can be said may say more: with all sizes raised, with
/// each of them alone, and with each flag set.
std::vector<CaseSetting> telling_settings(const Case& the_case, const CaseSetting& setting) {
  constexpr std::int64_t kSmall = 2, kLarger = 3;
  std::vector<CaseSetting> settings = {raised(the_case, setting, kSmall), raised(the_case, setting, kLarger)};
  for (const Dimension& dimension : the_case.dimensions()) {
    if (is_a_size(dimension)) settings.push_back(raised(the_case, setting, kLarger, dimension.name));
    if (dimension.least != 0 || dimension.most != 1 || setting.ranks == Ranks::world) continue;
    settings.push_back(raised(the_case, setting, kLarger));
    settings.back().dimensions[dimension.name] = 1;
  }
  if (setting.ranks != Ranks::world && setting.group_size > 1) {
    settings.push_back(raised(the_case, setting, kLarger));
    ++settings.back().group_size;
  }
  std::vector<CaseSetting> different;
  for (const CaseSetting& one : settings) {
    if (one == setting || std::ranges::find(different, one) != different.end()) continue;
    different.push_back(one);
  }
  return different;
}

/// The values that tensors have one step earlier, where there is one.
void add_step_before(ComparedRun& run) {
  const auto steps = run.setting.dimensions.find("steps");
  if (steps == run.setting.dimensions.end() || steps->second < 2) return;
  CaseSetting before = run.setting;
  --before.dimensions["steps"];
  const reference::Number<sim::Field> number = run.number;
  run.others["its value of the step before"] =
      run.the_case.serial(Inputs<sim::Field>(before, number), before);
}

/// What fits a run by coincidence.
struct Coincidences {
  std::set<std::string> names;        // of numbers that a factor has
  std::set<std::string> recognisers;  // those that fit
};

ExplainedTensor explain_run(Bench& bench, const Case& the_case, const CaseSetting& setting,
                            const sim::RunReport& report, ExperimentBudget& budget,
                            const Coincidences& coincidences) {
  ComparedRun run = compared_run(bench, the_case, setting, report);
  run.ruled_out = coincidences.names;
  run.coincidences = coincidences.recognisers;
  add_step_before(run);
  const WrongTensors tensors = wrong_tensors(run);
  if (tensors.wrong.empty()) {
    for (const CaseOutput& output : the_case.outputs(setting)) {
      std::string replicas = replicas_that_differ(setting, report, output);
      if (!replicas.empty()) return {.text = std::move(replicas), .says = Says::cause};
    }
    if (!tensors.without_reference.empty())
      return {.text = tensors.without_reference + ": the serial reference does not return it",
              .says = Says::cause};
  }
  return explain_wrong(tensors, budget, true);
}

/// Returns what the named recogniser says of a tensor of this run; none where the tensor is right.
std::optional<std::string> text_by(const std::string& recogniser, const std::string& name, ComparedRun& run,
                                   ExperimentBudget& budget) {
  for (const WrongTensor& tensor : wrong_tensors(run).wrong) {
    if (tensor.output.name != name) continue;
    for (const auto all : {value_recognisers(), experiments()}) {
      for (const Recogniser& one : all) {
        if (one.name == recogniser) return one.explain(tensor, budget);
      }
    }
  }
  return std::nullopt;
}

/// Whether with other seeds, too, the recogniser fits the tensor. Of a tensor of few values it must say the
/// same with all of them, and the tensor must be wrong with one.
bool holds_with_other_seeds(Bench& bench, const Case& the_case, const CaseSetting& setting,
                            const ExplainedTensor& explained) {
  constexpr int kSeeds = 16, kEnough = 3;
  int confirmed = 0;
  CaseSetting other = setting;
  for (int tried = 0; tried < kSeeds && (confirmed < kEnough || explained.has_few_values); ++tried) {
    ++other.seed;
    const auto report = fit_run(bench, the_case, other);
    if (report == nullptr) continue;
    ComparedRun run = compared_run(bench, the_case, other, *report);
    add_step_before(run);
    ExperimentBudget budget;  // one of its own: a seed is no part of what is explained
    const std::optional<std::string> text = text_by(explained.recogniser, explained.tensor, run, budget);
    if (!text || budget.left <= 0) continue;
    if (text->empty() || (explained.has_few_values && *text != explained.relation)) return false;
    ++confirmed;
  }
  return confirmed > 0 || !explained.has_few_values;
}

/// Whether other inputs may give the same tensor by chance. Another option is tried at larger sizes.
bool may_be_chance(const ExplainedTensor& explained) {
  if (explained.says < Says::cause) return false;
  const bool is_of_few = explained.elements < kManyElements && is_experiment(explained.recogniser) &&
                         explained.recogniser != kAnotherOption;
  return is_of_few || explained.has_few_values;
}

/// Explains a run by the first recogniser that does not fit by chance, and adds those that do.
ExplainedTensor explain_by_no_chance(Bench& bench, const Case& the_case, const CaseSetting& setting,
                                     const sim::RunReport& report, ExperimentBudget& budget,
                                     Coincidences& coincidences) {
  while (true) {
    ExplainedTensor explained = explain_run(bench, the_case, setting, report, budget, coincidences);
    if (setting.text || !may_be_chance(explained) ||
        holds_with_other_seeds(bench, the_case, setting, explained))
      return explained;
    coincidences.recognisers.insert(explained.recogniser);
  }
}

bool is_right(Bench& bench, const Case& the_case, const CaseSetting& setting) {
  const auto report = fit_run(bench, the_case, setting);
  if (report == nullptr || !explain_calls(the_case, setting, *report).empty()) return false;
  const ComparedRun run = compared_run(bench, the_case, setting, *report);
  return wrong_tensors(run).wrong.empty();
}

/// Returns the options without which all is right: "; all is right with clip 0, or with steps 1".
std::string text_of_needs(Bench& bench, const Case& the_case, const CaseSetting& setting) {
  constexpr std::size_t kMostNeeds = 4;
  std::vector<std::string> needs;
  if (setting.group_size > 1) {
    CaseSetting other = setting;
    other.group_size = 1;
    if (is_right(bench, the_case, other)) needs.emplace_back("on one rank");
  }
  for (const Dimension& dimension : the_case.dimensions()) {
    if (is_a_size(dimension) && dimension.least == 0) continue;
    if (setting[dimension.name] == dimension.least || needs.size() > kMostNeeds) continue;
    CaseSetting other = setting;
    other.dimensions[dimension.name] = dimension.least;
    if (is_right(bench, the_case, other))
      needs.push_back(fmt::format("with {} {}", dimension.name, dimension.least));
  }
  if (needs.empty() || needs.size() > kMostNeeds) return "";
  return fmt::format("; all is right {}", fmt::join(needs, ", or "));
}

/// Whether a relation may hold only because the tensor is small: one of few elements, and one of another
/// option, of which a case has many.
bool may_be_small(const ExplainedTensor& explained) {
  return explained.elements < kManyElements || !explained.names.empty() ||
         explained.recogniser == kAnotherOption;
}

/// Explains a run, and tries what is said of it at other settings.
class SettingSearch {
 public:
  SettingSearch(Bench& bench, const Case& the_case, const CaseSetting& setting, const sim::RunReport& report)
      : bench_(bench), case_(the_case), setting_(setting), report_(report) {
    // A training on text is that of a replay. Each run of its reference may take a second, and it has one
    // size.
    constexpr int kExperimentsOnText = 12;
    if (setting.text) budget_.left = kExperimentsOnText;
  }

  std::string text() {
    least_ = explain_by_no_chance(bench_, case_, setting_, report_, budget_, coincidences_);
    if (setting_.text || least_.text.empty() || least_.tensor.empty()) return least_.text;
    if (least_.says == Says::cause && !may_be_small(least_)) return least_.text;
    best_ = {least_, setting_};
    larger_.setting = setting_;
    for (const CaseSetting& other : telling_settings(case_, setting_)) try_at(other);
    settle();
    std::string text = best_.explained.text;
    if (best_.explained.says < Says::cause) text += text_of_needs(bench_, case_, best_.setting);
    const bool may_be_chance = best_.explained.elements == 1 && !is_confirmed_;
    if (best_.explained.says == Says::cause && may_be_chance) text += "; one element says so";
    if (!(best_.setting == setting_)) text += fmt::format(" (at {})", text_of_sizes(best_.setting, setting_));
    return text;
  }

 private:
  struct ExplainedAt {
    ExplainedTensor explained;
    CaseSetting setting;
  };

  bool says_the_same(const ExplainedTensor& other) const {
    return other.recogniser == least_.recogniser &&
           (least_.recogniser != kAnotherOption || other.text == least_.text);
  }

  void try_at(const CaseSetting& other) {
    const auto run = fit_run(bench_, case_, other);
    if (run == nullptr) return;
    Coincidences there{.names = {}, .recognisers = coincidences_.recognisers};
    const ExplainedTensor explained = explain_by_no_chance(bench_, case_, other, *run, budget_, there);
    if (explained.tensor != least_.tensor) return;
    const bool is_same = says_the_same(explained);
    is_tried_ |= explained.elements > least_.elements;
    is_confirmed_ |= is_same;
    ExplainedTensor& best = best_.explained;
    if (explained.recogniser == kFactor) {
      std::set<std::string>& ruled_out = coincidences_.names;
      std::ranges::set_difference(best.names, explained.names, std::inserter(ruled_out, ruled_out.end()));
    }
    const std::string& larger = larger_.explained.text;
    // What fits only the smallest setting may fit because it is small.
    if ((larger.empty() || explained.says > larger_.explained.says) && explained.elements > least_.elements)
      larger_ = {explained, other};
    const bool corrects = !is_confirmed_ && least_.says == Says::cause && explained.says == Says::cause &&
                          !is_same && explained.elements > best.elements &&
                          best.recogniser == least_.recogniser;
    if (explained.says > best.says || corrects) best_ = {explained, other};
  }

  /// Drops what fits the smallest setting by coincidence, and the names that a factor has by coincidence.
  void settle() {
    const ExplainedTensor& best = best_.explained;
    const bool is_least = best_.setting == setting_;
    const bool is_coincidence = best.says == Says::cause && is_least && is_tried_ && !is_confirmed_;
    const bool is_one_element =
        best.says <= Says::extent && best.elements == 1 && !larger_.explained.text.empty();
    if (is_coincidence || is_one_element) {
      best_ = larger_;
    } else if (!coincidences_.names.empty()) {
      ExperimentBudget again;
      const auto run = is_least ? nullptr : fit_run(bench_, case_, best_.setting);
      best_.explained = explain_by_no_chance(bench_, case_, best_.setting, run == nullptr ? report_ : *run,
                                             again, coincidences_);
    }
  }

  Bench& bench_;
  const Case& case_;
  const CaseSetting& setting_;
  const sim::RunReport& report_;
  ExperimentBudget budget_;
  Coincidences coincidences_;
  ExplainedTensor least_;  // of the setting itself
  ExplainedAt best_;       // what says most
  ExplainedAt larger_;     // what says most of a larger tensor
  bool is_tried_ = false, is_confirmed_ = false;
};

}  // namespace

ExplainedTensor explain_wrong(const WrongTensors& tensors, ExperimentBudget& budget, bool has_experiments) {
  if (tensors.wrong.empty()) return {};
  const WrongTensor& first = tensors.wrong.front();
  Found found = explain_one(first, budget, has_experiments);
  ExplainedTensor explained{.says = found.says,
                            .tensor = first.output.name,
                            .recogniser = found.recogniser,
                            .elements = first.judged().size()};
  if (explained.recogniser == kFactor) explained.names = names_of_factor(first);
  explained.text =
      fmt::format("{}: {}{}", name_of(first),
                  first.is_input ? "ranks drew something else than the reference; " : "", found.text);
  if (found.says == Says::cause) {
    explained.relation = found.text;
    explained.has_few_values = has_few_values(first);
    return explained;
  }
  if (first.is_of_some_ranks()) explained.says = Says::part;
  for (std::size_t i = 1; i < tensors.wrong.size() && !first.is_input; ++i) {
    const Found later = recognised(tensors.wrong[i], value_recognisers(), Says::cause, budget);
    if (later.text.empty()) continue;
    explained.text += fmt::format("; {}: {}", name_of(tensors.wrong[i]), later.text);
    explained.says = Says::part;
    break;
  }
  if (!first.is_of_some_ranks()) explained.text += text_of_ranks_of_all(tensors.wrong);
  explained.text += text_of_right(tensors.right);
  return explained;
}

std::string explain_tensors(Bench& bench, const Case& the_case, const CaseSetting& setting,
                            const sim::RunReport& report) {
  return SettingSearch(bench, the_case, setting, report).text();
}

}  // namespace verify
