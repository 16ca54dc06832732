#include "verify/explain/explained_tensors.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <optional>
#include <string_view>

#include "sim/model/text_corpus.h"
#include "verify/explain/explained_calls.h"

namespace verify {

namespace {

const std::string kFactor = "factor";
const std::string kAnotherOption = "another option";
const std::string kAnotherTensor = "another tensor";
const std::string kDifference = "difference of a tensor";
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
/// each of them alone, and with each choice made otherwise, as that of one expert for each token.
std::vector<CaseSetting> telling_settings(const Case& the_case, const CaseSetting& setting) {
  constexpr std::int64_t kSmall = 2, kLarger = 3;
  const bool is_training = !the_case.stretches(setting).empty();
  std::vector<CaseSetting> settings = {raised(the_case, setting, kSmall), raised(the_case, setting, kLarger)};
  for (const Dimension& dimension : the_case.dimensions()) {
    if (is_a_size(dimension)) settings.push_back(raised(the_case, setting, kLarger, dimension.name));
    const bool is_a_choice = dimension.least == 0 && !is_a_size(dimension) && !dimension.is_an_axis;
    for (std::int64_t value = 0; is_a_choice && !is_training && value <= dimension.most; ++value) {
      settings.push_back(raised(the_case, setting, kLarger));
      settings.back().dimensions[dimension.name] = value;
    }
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

/// Returns the tensor that a relation names last: "linear.bias" of "the serial one plus 2 times linear.bias".
std::string tensor_of(const std::string& relation) {
  std::size_t begin = 0;
  for (const std::string_view word : {" plus ", " minus ", " times ", " of "}) {
    const std::size_t found = relation.find(word, begin);
    const bool is_a_fraction = word != " of " || relation.find('/', begin) < found;
    if (found != std::string::npos && is_a_fraction) begin = found + word.size();
  }
  return relation.substr(begin);
}

/// Whether one of the options that a relation names is among those of another one.
bool shares_an_option(const std::string& relation, const std::string& other) {
  for (std::size_t begin = 0; begin < relation.size();) {
    const std::size_t end = std::min(relation.find("; or what ", begin), relation.size());
    std::string option = relation.substr(begin, end - begin);
    option = option.substr(0, option.find(" gives"));
    option = option.substr(option.find_last_of(' ', option.find_last_of(' ') - 1) + 1);
    if (other.find(option + " gives") != std::string::npos) return true;
    begin = end == relation.size() ? end : end + std::string_view("; or what ").size();
  }
  return false;
}

/// Whether with other seeds, too, the recogniser fits the tensor. Of a tensor of few values, and of a factor
/// without a name, it must say the same with all of them; and the tensor must be wrong with one.
bool holds_with_other_seeds(Bench& bench, const Case& the_case, const CaseSetting& setting,
                            const ExplainedTensor& explained) {
  constexpr int kSeeds = 16, kEnough = 3;
  const bool is_option = explained.recogniser == kAnotherOption;
  const bool is_the_same =
      explained.has_few_values || (explained.recogniser == kFactor && explained.names.empty());
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
    const bool is_same =
        is_option ? shares_an_option(explained.relation, *text) : *text == explained.relation;
    if (text->empty() || ((is_the_same || is_option) && !is_same)) return false;
    ++confirmed;
  }
  return confirmed > 0 || !is_the_same;
}

/// Whether other inputs may give the same tensor by chance, as another option does where choices are few. Of
/// a training, each run of which takes long, only experiments on few elements are doubted.
bool may_be_chance(const ExplainedTensor& explained, bool takes_long) {
  if (explained.says < Says::cause) return false;
  const bool is_option = explained.recogniser == kAnotherOption;
  const bool is_of_few = explained.elements < kManyElements && !is_option;
  if (takes_long) return explained.has_few_values || (is_of_few && is_experiment(explained.recogniser));
  const bool is_nameless = explained.recogniser == kFactor && explained.names.empty();
  return is_of_few || is_option || is_nameless || explained.has_few_values;
}

/// Explains a run by the first recogniser that does not fit by chance, and adds those that do.
ExplainedTensor explain_by_no_chance(Bench& bench, const Case& the_case, const CaseSetting& setting,
                                     const sim::RunReport& report, ExperimentBudget& budget,
                                     Coincidences& coincidences) {
  while (true) {
    ExplainedTensor explained = explain_run(bench, the_case, setting, report, budget, coincidences);
    const bool takes_long = !the_case.stretches(setting).empty();
    if (setting.text || !may_be_chance(explained, takes_long) ||
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

/// Whether all is right here and with two other seeds: with one it may be so by chance.
bool is_right_with_seeds(Bench& bench, const Case& the_case, CaseSetting setting) {
  constexpr int kSeeds = 3;
  for (int tried = 0; tried < kSeeds; ++tried, ++setting.seed) {
    if (!is_right(bench, the_case, setting)) return false;
    if (setting.text || !the_case.stretches(setting).empty()) return true;  // each run takes long
  }
  return true;
}

/// Returns the options without which all is right: "; all is right with clip 0, or with steps 1".
std::string text_of_needs(Bench& bench, const Case& the_case, const CaseSetting& setting) {
  constexpr std::size_t kMostNeeds = 4;
  std::vector<std::string> needs;
  if (setting.group_size > 1) {
    CaseSetting other = setting;
    other.group_size = 1;
    if (is_right_with_seeds(bench, the_case, other)) needs.emplace_back("on one rank");
  }
  for (const Dimension& dimension : the_case.dimensions()) {
    if (is_a_size(dimension) && dimension.least == 0) continue;
    if (setting[dimension.name] == dimension.least || needs.size() > kMostNeeds) continue;
    CaseSetting other = setting;
    other.dimensions[dimension.name] = dimension.least;
    if (is_right_with_seeds(bench, the_case, other))
      needs.push_back(fmt::format("with {} {}", dimension.name, dimension.least));
  }
  if (needs.empty() || needs.size() > kMostNeeds) return "";
  return fmt::format("; all is right {}", fmt::join(needs, ", or "));
}

/// Whether a relation may hold only because sizes are small: one of few elements, and one of another option
/// or tensor, of which a case has many.
bool may_be_small(const ExplainedTensor& explained) {
  const std::string* of_sizes[] = {&kFactor, &kAnotherOption, &kAnotherTensor, &kDifference};
  return explained.elements < kManyElements ||
         std::ranges::any_of(of_sizes, [&](const auto* name) { return explained.recogniser == *name; });
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
    larger_.setting = other_.setting = setting_;
    for (const CaseSetting& other : telling_settings(case_, setting_)) try_at(other);
    settle();
    std::string text = best_.explained.text;
    if (best_.explained.says < Says::cause) text += text_of_needs(bench_, case_, best_.setting);
    if (!(best_.setting == setting_)) text += fmt::format(" (at {})", text_of_sizes(best_.setting, setting_));
    return text;
  }

 private:
  struct ExplainedAt {
    ExplainedTensor explained;
    CaseSetting setting;
  };

  /// What is told of a factor is its names, and of one without a name its number; of another tensor its name:
  /// with one token, the gradient of a bias is that of its output.
  bool says_the_same(const ExplainedTensor& other) const {
    if (other.recogniser != least_.recogniser) return false;
    if (least_.recogniser == kFactor)
      return least_.names.empty() ? other.relation == least_.relation : shares_a_name(other);
    if (least_.recogniser == kAnotherTensor || least_.recogniser == kDifference)
      return tensor_of(other.relation) == tensor_of(least_.relation);
    return least_.recogniser != kAnotherOption || other.text == least_.text;
  }
  bool shares_a_name(const ExplainedTensor& other) const {
    return std::ranges::any_of(least_.names,
                               [&](const std::string& name) { return other.names.contains(name); });
  }

  void try_at(const CaseSetting& other) {
    const auto run = fit_run(bench_, case_, other);
    if (run == nullptr) return;
    Coincidences there{.names = {}, .recognisers = coincidences_.recognisers};
    const ExplainedTensor explained = explain_by_no_chance(bench_, case_, other, *run, budget_, there);
    if (explained.tensor != least_.tensor) return;
    const bool is_same = says_the_same(explained);
    const bool is_larger = explained.elements > least_.elements;
    is_tried_ |= is_larger;
    is_confirmed_ |= is_same;
    if (is_larger && !is_same) refute_by({explained, other});
    rule_out_names(explained);
    // What fits only the smallest setting may fit because it is small.
    if (is_larger && says_more(explained, larger_.explained)) larger_ = {explained, other};
    if (explained.says > best_.explained.says || (!is_same && corrects(explained)))
      best_ = {explained, other};
  }

  static bool says_more(const ExplainedTensor& explained, const ExplainedTensor& than) {
    return than.text.empty() || explained.says > than.says;
  }

  /// A tensor that is another one at some sizes alone, as with one token, is so by chance.
  void refute_by(const ExplainedAt& at) {
    if (least_.recogniser != kAnotherTensor && least_.recogniser != kDifference) return;
    is_refuted_ = true;
    if (says_more(at.explained, other_.explained)) other_ = at;
  }

  /// Rules out the names of a factor that it has not at another setting.
  void rule_out_names(const ExplainedTensor& explained) {
    if (explained.recogniser != kFactor) return;
    std::set<std::string>& ruled_out = coincidences_.names;
    std::ranges::set_difference(best_.explained.names, explained.names,
                                std::inserter(ruled_out, ruled_out.end()));
  }

  /// Whether a cause that was found at a larger setting stands in place of the one of the smallest.
  bool corrects(const ExplainedTensor& explained) const {
    const ExplainedTensor& best = best_.explained;
    return !is_confirmed_ && least_.says == Says::cause && explained.says == Says::cause &&
           explained.elements > best.elements && best.recogniser == least_.recogniser;
  }

  /// Drops what fits the smallest setting by coincidence, and the names that a factor has by coincidence.
  void settle() {
    const ExplainedTensor& best = best_.explained;
    const bool is_least = best_.setting == setting_;
    const bool is_coincidence = best.says == Says::cause && is_least && is_tried_ && !is_confirmed_;
    const bool is_one_element =
        best.says <= Says::extent && best.elements == 1 && !larger_.explained.text.empty();
    if (is_refuted_) {
      best_ = other_;
    } else if (is_coincidence || is_one_element) {
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
  ExplainedAt other_;      // what says most of a larger tensor and is not the same
  bool is_tried_ = false, is_confirmed_ = false, is_refuted_ = false;
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
