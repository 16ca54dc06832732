// The exam of inspect with planted faults: a fault of verify/faults is planted in one call of one rank of a
// training, at each site that the training reaches. The virtual world knows what went wrong, and inspect sees
// only the dumps of the run. The table of verify/recordings/README.md has the outcome, and this test holds
// it.

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cpu/cpu_device.h"
#include "sim/tensor/counting_device.h"
#include "tests/verify/recordings/examined_run.h"
#include "tests/verify/recordings/folder.h"
#include "verify/cases/case.h"
#include "verify/cases/case_list.h"
#include "verify/faults/fault.h"
#include "verify/faults/faulty_calls.h"
#include "verify/properties/bench.h"

namespace {

struct Training {
  const char* name;  // of its case
  int ranks;
  verify::Dimensions dimensions;  // the others have their least value
};

const std::vector<Training>& trainings() {
  static const std::vector<Training> all = {
      {"gpt_training",
       16,
       {{"tp", 4},
        {"pp", 2},
        {"microbatches", 2},
        {"steps", 2},
        {"distributed", 1},
        {"overlap", 1},
        {"sequence_parallel", 1},
        {"clip", 1}}},
      {"gpt_training", 12, {{"tp", 1}, {"pp", 4}, {"microbatches", 3}, {"tied", 1}}},
      {"moe_training", 8, {{"tp", 2}, {"ep", 4}, {"local_experts", 1}, {"dispatcher", 1}}},
      {"cp_training", 8, {{"tp", 2}, {"cp", 4}}}};
  return all;
}

/// Runs one training with faults, in f32.
class TrainingRuns {
 public:
  explicit TrainingRuns(const Training& training)
      : case_(*verify::find_case(training.name)),
        setting_{.group_size = training.ranks, .ranks = case_.ranks(), .dtype = sim::DType::f32} {
    for (const verify::Dimension& dimension : case_.dimensions()) {
      const auto own = training.dimensions.find(dimension.name);
      setting_.dimensions[dimension.name] = own == training.dimensions.end() ? dimension.least : own->second;
    }
  }

  const sim::Layout& layout() { return bench_.world_of(case_, setting_).layout; }
  sim::RunReport run(const std::vector<verify::Fault>& faults) {
    cpu_.set_field_seed(setting_.seed, case_.field_functions());
    sim::CountingDevice device(cpu_);
    const sim::RankProgram program = [&](sim::Rank& rank) { case_.run(rank, setting_); };
    const sim::WorldSpec& spec = bench_.world_of(case_, setting_);
    return sim::simulate(
        spec, device, verify::with_faults(program, verify::with_calls_before(faults, spec, cpu_, program)));
  }

 private:
  const verify::Case& case_;
  verify::CaseSetting setting_;
  verify::Bench bench_;
  sim::CpuDevice cpu_;
};

/// Returns the arguments with which a fault is planted in a call over a group of a kind.
std::vector<std::string> arguments_of(const verify::FaultInfo& info, const std::string& kind,
                                      const sim::Layout& layout) {
  switch (info.argument) {
    case verify::FaultArgument::none:
      return {""};
    case verify::FaultArgument::group: {
      std::vector<std::string> all;
      const sim::GroupKind* own = layout.find(kind);
      for (const char* name : {"tp", "cp", "dp", "pp", "ep"}) {
        const sim::GroupKind* other = layout.find(name);
        if (other == nullptr || other->size() == 1) continue;
        if (own == nullptr || !other->same_groups(*own)) all.push_back(fmt::format("={}", name));
      }
      return all;
    }
    case verify::FaultArgument::reduce_op:
      return {"=product"};
    case verify::FaultArgument::factor:
      return {"=2"};
    case verify::FaultArgument::next:
      return {"=next"};
    case verify::FaultArgument::next_or_previous:
      return {"=next", "=previous"};
    case verify::FaultArgument::bf16:
      return {"=bf16"};
    case verify::FaultArgument::count:
      return {"=1"};
  }
  return {};
}

/// Plans every fault at every site: in the first call of the first rank that calls there, and in the last
/// call of the last rank.
std::set<std::string> planned_faults(const sim::RunReport& clean, const sim::Layout& layout) {
  using CallsOfRanks = std::map<int, std::vector<sim::CallRecord>>;
  std::map<std::string, CallsOfRanks> sites;
  for (const sim::RankReport& rank : clean.ranks) {
    for (const sim::CallRecord& call : rank.calls) {
      if (call.group->size() > 1) sites[call.site.name][rank.rank].push_back(call);
    }
  }
  std::set<std::string> faults;
  const auto plan = [&](const std::string& site, int rank, std::size_t number, const sim::CallRecord& call) {
    for (const verify::FaultInfo& info : verify::fault_table()) {
      if (info.applies == nullptr || !info.applies(call.operation)) continue;
      for (const std::string& argument : arguments_of(info, call.group->kind, layout))
        faults.insert(fmt::format("{}:{}{}@rank={},call={}", site, info.name, argument, rank, number));
    }
  };
  for (const auto& [site, by_rank] : sites) {
    const auto& [first_rank, first_calls] = *by_rank.begin();
    const auto& [last_rank, last_calls] = *by_rank.rbegin();
    plan(site, first_rank, 0, first_calls.front());
    plan(site, last_rank, last_calls.size() - 1, last_calls.back());
  }
  return faults;
}

/// Whether a dump has what the virtual world has found: a reduction, a root and the rows for each member are
/// not recorded, and a run that another schedule would hang has ended here.
bool is_in_dumps(const sim::Finding& finding) {
  constexpr std::array<std::string_view, 4> kNotInDumps = {"reduction_mismatch", "root_mismatch",
                                                           "split_size_mismatch", "potential_deadlock"};
  return std::find(kNotInDumps.begin(), kNotInDumps.end(), finding.code) == kNotInDumps.end();
}

/// The outcome of all faults of one kind.
struct Outcomes {
  int planted = 0;
  int ended = 0;       // the run ended, and the world found nothing
  int not_seen = 0;    // the world found what no dump has
  int in_dumps = 0;    // it found what dumps have
  int agrees = 0;      // of these: inspect names the ranks that the world names, or the rank with the fault
  int has_rank = 0;    // of these: the rank with the fault is among those that inspect names
  int false_ones = 0;  // of the runs that ended: inspect names a rank

  void add(const Outcomes& other) {
    planted += other.planted;
    ended += other.ended;
    not_seen += other.not_seen;
    in_dumps += other.in_dumps;
    agrees += other.agrees;
    has_rank += other.has_rank;
    false_ones += other.false_ones;
  }
};

Outcomes outcome_of(TrainingRuns& runs, const verify::Fault& fault) {
  const sim::RunReport run = runs.run({fault});
  const std::vector<verify::RankDump> dumps = test::dumps_of_run(runs.layout(), run);
  const test::RankSet suspects = test::suspects_of(verify::inspect(test::read_dumps(dumps), {}, false));
  if (run.ok()) return {.planted = 1, .ended = 1, .false_ones = suspects.empty() ? 0 : 1};
  if (!is_in_dumps(run.findings.front())) return {.planted = 1, .not_seen = 1};
  const int rank = fault.where.ranks.front();
  const bool agrees = suspects == test::culprits_of(run) || suspects == test::RankSet{rank};
  return {.planted = 1, .in_dumps = 1, .agrees = agrees ? 1 : 0, .has_rank = suspects.contains(rank) ? 1 : 0};
}

std::string row_of(std::string_view fault, const Outcomes& all) {
  return fmt::format("| {} | {} | {} | {} | {} | {} | {} |", fault, all.planted, all.ended, all.not_seen,
                     all.in_dumps, all.agrees, all.has_rank);
}

TEST(InspectExamOfFaults, TheTableHasTheOutcomeOfEveryPlantedFault) {
  std::map<std::string, Outcomes> by_kind;
  Outcomes all;
  for (const Training& training : trainings()) {
    TrainingRuns runs(training);
    const sim::RunReport clean = runs.run({});
    ASSERT_TRUE(clean.ok()) << clean.failure();
    for (const std::string& text : planned_faults(clean, runs.layout())) {
      const verify::Fault fault = verify::parsed_fault(text);
      const Outcomes outcome = outcome_of(runs, fault);
      by_kind[verify::info_of(fault.kind).name].add(outcome);
      all.add(outcome);
    }
  }
  EXPECT_EQ(all.false_ones, 0);
  EXPECT_GE(all.agrees * 100, all.in_dumps * 95);
  const std::string manual = test::content_of("verify/recordings/README.md");
  for (const auto& [kind, outcomes] : by_kind) {
    const std::string row = row_of(fmt::format("`{}`", kind), outcomes);
    EXPECT_NE(manual.find(row), std::string::npos) << row;
  }
  EXPECT_NE(manual.find(row_of("all", all)), std::string::npos) << row_of("all", all);
}

}  // namespace
