#include "sim/world/simulate.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "sim/base/content_hash.h"
#include "sim/base/printable_text.h"
#include "sim/world/virtual_communicator.h"
#include "sim/world/virtual_world.h"

namespace sim {

namespace {

void add_tensor(ContentHash& hash, const Published& tensor) {
  hash.add(std::string_view(tensor.name));
  hash.add(name_of(tensor.dtype));
  for (std::size_t i = 0; i < Shape::kMaxDimensions; ++i)
    hash.add(static_cast<std::uint64_t>(tensor.shape[i]));
  hash.add(std::span<const std::byte>(tensor.values));
}

std::vector<std::uint32_t> places_by_name(const std::vector<Published>& published) {
  std::vector<std::uint32_t> places(published.size());
  std::iota(places.begin(), places.end(), 0U);
  std::sort(places.begin(), places.end(), [&](std::uint32_t a, std::uint32_t b) {
    const int order = published[a].name.compare(published[b].name);
    return order < 0 || (order == 0 && a < b);
  });
  return places;
}

std::uint64_t hash_of(const RankReport& rank) {
  ContentHash hash;
  hash.add(static_cast<std::uint64_t>(rank.rank));
  for (const Published& tensor : rank.published) add_tensor(hash, tensor);
  if (rank.folded.count > 0) {
    hash.add(static_cast<std::uint64_t>(rank.folded.count));
    hash.add(rank.folded.hash.value());
  }
  add_calls(hash, rank.calls, rank.calls.size());
  return hash.value();
}

RankLedger ledger_of(const RankReport& rank) {
  RankLedger ledger = rank.folded.ledger;
  ledger.add(rank.calls, rank.calls.size());
  return ledger;
}

/// Makes all texts of a finding printable, because they quote exceptions and names of the program.
void make_printable(Finding& finding) {
  for (std::string* text : {&finding.code, &finding.sentence, &finding.rule, &finding.hint})
    *text = printable_text(*text);
  for (CallFacts& call : finding.calls) {
    for (std::string* text : {&call.state, &call.group, &call.site, &call.file})
      *text = printable_text(*text);
  }
}

}  // namespace

std::string RunReport::failure() const {
  return findings.empty() ? "" : text_of(findings.front(), reproduce);
}

const Published* RunReport::find(int rank, std::string_view name) const {
  const auto is_before = [](const RankReport& report, int wanted) { return report.rank < wanted; };
  // In most worlds all ranks run, and rank r is number r.
  const bool is_in_its_place =
      rank >= 0 && rank < std::ssize(ranks) && ranks[static_cast<std::size_t>(rank)].rank == rank;
  const auto found =
      is_in_its_place ? ranks.begin() + rank : std::lower_bound(ranks.begin(), ranks.end(), rank, is_before);
  if (found == ranks.end() || found->rank != rank) return nullptr;
  const auto name_at = [&](std::uint32_t place) -> std::string_view { return found->published[place].name; };
  const auto place =
      std::lower_bound(found->by_name.begin(), found->by_name.end(), name,
                       [&](std::uint32_t at, std::string_view wanted) { return name_at(at) < wanted; });
  return place == found->by_name.end() || name_at(*place) != name ? nullptr : &found->published[*place];
}

RunReport simulate(const WorldSpec& spec, Device& device, const RankProgram& program) {
  check(spec);
  const auto world = std::make_shared<VirtualWorld>(spec, device);
  world->run(program);
  RunReport report;
  Ledger ledger;
  ContentHash hash;
  report.ranks.reserve(world->ranks().size());
  for (const auto& state : world->ranks()) {
    const std::int64_t* work = state->device->work();
    report.ranks.push_back({.rank = state->rank,
                            .published = state->recorder->take_published(),
                            .folded = state->recorder->folded_calls(),
                            .calls = state->recorder->take_calls(),
                            .moments = state->recorder->take_moments(),
                            .work = work == nullptr ? 0 : *work});
    report.ranks.back().by_name = places_by_name(report.ranks.back().published);
    ledger.add(ledger_of(report.ranks.back()));
    hash.add(hash_of(report.ranks.back()));
  }
  report.ledger = ledger.rows();
  report.findings = std::move(world->findings());
  for (Finding& finding : report.findings) {
    make_printable(finding);
    hash.add(std::string_view(finding.code));
  }
  report.warnings = world->warnings();
  for (Finding& warning : report.warnings) make_printable(warning);
  report.run_hash = hash.value();
  report.schedule_hash = world->schedule_hash();
  report.guarded_stacks = world->has_guarded_stacks();
  if (!report.findings.empty()) report.reproduce = spec.reproduce.empty() ? text_of(spec) : spec.reproduce;
  report.kept = world->release_groups();
  return report;
}

}  // namespace sim
