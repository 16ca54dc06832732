#include "verify/checks/collective_round.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fmt/format.h>
#include <span>
#include <string>
#include <vector>

#include "verify/output/phrases.h"

namespace verify {

namespace {

constexpr int kLargestWholeWorld = 4096;
constexpr int kSampledRanks = 512;  // the ranks that are sampled for one kind
constexpr std::size_t kCount = 2;

using Ints = std::vector<std::int32_t>;

/// The expected results for the groups of one kind, computed from the definition. Rank r contributes the
/// values v(r, i). Its block b of a reduce_scatter is v(r, 0) + b * w(r), so that blocks differ.
struct KindTruth {
  const sim::GroupKind* kind = nullptr;
  std::vector<char> runs;       // by group: whether it is in the sample
  sim::KeyedRandom random;      // draws v
  sim::KeyedRandom of_weights;  // draws w
  std::vector<Ints> gathered;   // by group: v of all members; empty where it does not run
  std::vector<Ints> weights;    // by group: w of all members
  std::vector<Ints> sums;       // by group: sums of v over the members
  Ints weight_sums;             // by group: the sum of w over the members

  std::int32_t value(int rank, std::size_t i) const {
    return static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(rank) * kCount + i, 2001)) -
           1000;
  }
  std::int32_t weight(int rank) const {
    return static_cast<std::int32_t>(of_weights.below(static_cast<std::uint64_t>(rank), 100));
  }
};

KindTruth truth_of(const sim::GroupKind& kind, bool whole) {
  KindTruth truth{.kind = &kind,
                  .runs = {},
                  .random = sim::KeyedRandom(1).named(kind.name()),
                  .of_weights = sim::KeyedRandom(2).named(kind.name()),
                  .gathered = {},
                  .weights = {},
                  .sums = {},
                  .weight_sums = {}};
  const auto groups = static_cast<std::size_t>(kind.count());
  const int sample = whole ? kind.count() : std::clamp(kSampledRanks / kind.size(), 1, kind.count());
  const bool too_large = kind.size() > kLargestWholeWorld;
  truth.runs.assign(groups, 0);
  truth.gathered.resize(groups);
  truth.sums.resize(groups);
  truth.weights.resize(groups);
  truth.weight_sums.resize(groups);
  for (int i = 0; i < sample && !too_large; ++i) {
    const auto group = static_cast<std::size_t>(static_cast<std::int64_t>(i) * kind.count() / sample);
    truth.runs[group] = 1;
    Ints sum(kCount, 0);
    for (const int rank : kind.members(static_cast<int>(group))) {
      for (std::size_t element = 0; element < kCount; ++element) {
        truth.gathered[group].push_back(truth.value(rank, element));
        sum[element] += truth.value(rank, element);
      }
      truth.weights[group].push_back(truth.weight(rank));
      truth.weight_sums[group] += truth.weights[group].back();
    }
    truth.sums[group] = std::move(sum);
  }
  return truth;
}

/// Returns the ranks of all groups that run, in ascending order.
std::vector<int> sampled_ranks(const std::vector<KindTruth>& truths) {
  std::vector<int> ranks;
  for (const KindTruth& truth : truths) {
    for (std::size_t group = 0; group < truth.runs.size(); ++group) {
      if (truth.runs[group] == 0) continue;
      const std::vector<int> members = truth.kind->members(static_cast<int>(group));
      ranks.insert(ranks.end(), members.begin(), members.end());
    }
  }
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

sim::Tensor tensor_of(sim::Rank& rank, const Ints& values) {
  return sim::from_host(rank.device, sim::DType::i32, {std::ssize(values)}, std::as_bytes(std::span(values)));
}

bool equals(const sim::Tensor& tensor, const Ints& expected) {
  const std::vector<std::byte> bytes = sim::host_bytes(tensor);
  return bytes.size() == expected.size() * sizeof(std::int32_t) &&
         (bytes.empty() || std::memcmp(bytes.data(), expected.data(), bytes.size()) == 0);
}

/// Runs the three collectives of one rank in one group. Returns the name of the first whose result is
/// wrong, or "".
std::string round_in(sim::Rank& rank, const KindTruth& truth, sim::GroupKind::Place place) {
  sim::Communicator& group = rank.groups.get(truth.kind->name());
  const auto index = static_cast<std::size_t>(place.group);
  const auto n = static_cast<std::size_t>(group.size());
  const auto position = static_cast<std::size_t>(place.position);
  const auto values = truth.gathered[index].begin() + static_cast<std::ptrdiff_t>(position * kCount);
  const Ints own(values, values + kCount);
  const sim::Tensor sum = tensor_of(rank, own);
  group.all_reduce(sum, sim::ReduceOp::sum, "round.all_reduce");
  if (!equals(sum, truth.sums[index])) return "all_reduce";

  const sim::Tensor gathered = rank.device.empty(sim::DType::i32, {static_cast<std::int64_t>(n * kCount)});
  group.all_gather(tensor_of(rank, own), gathered, "round.all_gather");
  if (!equals(gathered, truth.gathered[index])) return "all_gather";

  Ints blocks(n, own.front());
  const std::int32_t weight = truth.weights[index][position];
  for (std::size_t block = 0; block < n; ++block) blocks[block] += static_cast<std::int32_t>(block) * weight;
  const sim::Tensor scattered = rank.device.empty(sim::DType::i32, {1});
  group.reduce_scatter(tensor_of(rank, blocks), scattered, sim::ReduceOp::sum, "round.reduce_scatter");
  const Ints expected = {truth.sums[index].front() + place.position * truth.weight_sums[index]};
  return equals(scattered, expected) ? "" : "reduce_scatter";
}

std::string detail_of(const std::vector<KindTruth>& truths, const sim::RunReport& run, bool whole,
                      int world) {
  std::int64_t groups = 0;
  std::vector<std::string> left_out;
  for (const KindTruth& truth : truths) {
    const auto runs = std::ranges::count(truth.runs, 1);
    groups += runs;
    if (runs == 0) left_out.push_back(truth.kind->name());
  }
  std::string text = fmt::format("{} of {}: all_reduce, all_gather and reduce_scatter as defined, on {}",
                                 counted(groups, "group"), counted(std::ssize(truths), "kind"),
                                 counted(std::ssize(run.ranks), "virtual rank"));
  if (!whole) text += fmt::format(", a sample of {}", world);
  for (const std::string& name : left_out) text += fmt::format("; {} is too large to run", name);
  if (!run.guarded_stacks) text += "; stacks without guard pages";
  return text + fmt::format("; run hash {:016x}", run.run_hash);
}

}  // namespace

RoundReport collective_round(sim::WorldSpec spec, sim::Device& device) {
  const bool whole = spec.layout.grid_size <= kLargestWholeWorld;
  std::vector<KindTruth> truths;
  for (const sim::GroupKind& kind : spec.layout.kinds) truths.push_back(truth_of(kind, whole));
  if (!whole) spec.ranks = sampled_ranks(truths);
  // Each rank writes only its own entry.
  std::vector<std::string> wrong(static_cast<std::size_t>(spec.layout.grid_size));
  sim::RunReport run = sim::simulate(spec, device, [&](sim::Rank& rank) {
    for (const KindTruth& truth : truths) {
      const auto place = truth.kind->place_of(rank.id);
      if (!place || truth.runs[static_cast<std::size_t>(place->group)] == 0) continue;
      const std::string failed = round_in(rank, truth, *place);
      std::string& own = wrong[static_cast<std::size_t>(rank.id - spec.layout.first_rank)];
      if (!failed.empty() && own.empty())
        own = fmt::format("{} of {}[{}]", failed, truth.kind->name(), place->group);
    }
  });
  const auto failed = std::ranges::find_if(wrong, [](const std::string& w) { return !w.empty(); });
  CheckResult check{"collectives", run.ok() && failed == wrong.end(), ""};
  if (!run.ok()) {
    check.detail = run.findings.front().sentence;
  } else if (failed != wrong.end()) {
    check.detail = fmt::format("rank {}: the result of {} differs from the definition of the collective",
                               failed - wrong.begin() + spec.layout.first_rank, *failed);
  } else {
    check.detail = detail_of(truths, run, whole, spec.layout.grid_size);
  }
  return {std::move(check), std::move(run)};
}

}  // namespace verify
