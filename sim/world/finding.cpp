#include "sim/world/finding.h"

#include <cstddef>
#include <fmt/format.h>
#include <utility>

namespace sim {

namespace {

/// A refused call may name a place that the group does not have.
int global_or_none(const ProcessGroup& group, int place) {
  if (place < 0) return -1;
  return place < group.size() ? group.rank_at(place) : place;
}

std::string operation_text(const CallFacts& call) {
  std::string text = std::string(name_of(call.operation));
  if (has_reduce_op(call.operation)) text += fmt::format("({})", name_of(call.reduce_op));
  if (moves_data(call.operation)) text += fmt::format(" {} x {}", call.count, name_of(call.dtype));
  if (call.root_or_peer < 0) return text;
  if (call.operation == Operation::send) text += fmt::format(" to rank {}", call.root_or_peer);
  if (call.operation == Operation::recv) text += fmt::format(" from rank {}", call.root_or_peer);
  if (has_root(call.operation)) text += fmt::format(" root {}", call.root_or_peer);
  return text;
}

std::string line_of(const CallFacts& call) {
  if (call.group.empty()) return fmt::format("  rank {:<5} {}\n", call.rank, call.state);
  return fmt::format("  rank {:<5} {} {}, call {} of {}, at '{}' ({}:{})\n", call.rank, call.state,
                     operation_text(call), call.sequence, call.group, call.site, call.file, call.line);
}

}  // namespace

CallFacts facts_of(const Call& call, const ProcessGroup& group, int rank, std::string state) {
  return {rank,
          std::move(state),
          text_of(group),
          call.sequence,
          call.operation,
          call.count,
          call.dtype,
          call.reduce_op,
          global_or_none(group, has_root(call.operation) ? call.root : call.peer),
          call.site.name,
          call.site.file,
          call.site.line};
}

CallFacts facts_of(const CallRecord& call, int rank, std::string state) {
  return {rank,           std::move(state), text_of(*call.group),
          call.sequence,  call.operation,   call.count,
          call.dtype,     call.reduce_op,   global_or_none(*call.group, call.root_or_peer),
          call.site.name, call.site.file,   call.site.line};
}

void add_facts(Finding& finding, CallFacts facts) {
  constexpr std::size_t kShown = 10;
  if (finding.calls.size() < kShown) {
    finding.calls.push_back(std::move(facts));
  } else {
    ++finding.more_calls;
  }
}

std::string text_of(const Finding& finding, const std::string& reproduce) {
  std::string text = fmt::format("{}: {}\n", finding.code, finding.sentence);
  for (const CallFacts& call : finding.calls) text += line_of(call);
  if (finding.more_calls > 0) text += fmt::format("  ... and {} more\n", finding.more_calls);
  text += fmt::format("  rule       {}\n  try        {}\n", finding.rule, finding.hint);
  if (!reproduce.empty()) text += fmt::format("  reproduce  {}\n", reproduce);
  return text;
}

}  // namespace sim
