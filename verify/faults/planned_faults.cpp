#include "verify/faults/planned_faults.h"

#include <algorithm>
#include <fmt/format.h>

namespace verify {

namespace {

std::vector<std::string> reductions_at(const CallsOfSite& site) {
  std::vector<std::string> arguments;
  for (const auto op : {sim::ReduceOp::sum, sim::ReduceOp::max, sim::ReduceOp::average}) {
    if (!site.reductions.contains(op)) arguments.push_back(fmt::format("={}", sim::name_of(op)));
  }
  return arguments;
}

std::vector<std::string> factors_at(const CallsOfSite& site) {
  std::vector<std::string> arguments;
  for (const std::string& size : site.sizes) {
    arguments.push_back("=" + size);
    arguments.push_back("=1/" + size);
  }
  arguments.emplace_back("=1+2^-10");
  return arguments;
}

/// Returns the arguments that a fault is tried with at a site; "" for one without an argument.
std::vector<std::string> arguments_at(const CallsOfSite& site, const FaultInfo& fault) {
  switch (fault.argument) {
    case FaultArgument::none:
      return {""};
    case FaultArgument::group: {
      std::vector<std::string> arguments;
      for (const std::string& kind : site.other_groups) arguments.push_back("=" + kind);
      return arguments;
    }
    case FaultArgument::reduce_op:
      return reductions_at(site);
    case FaultArgument::factor:
      return factors_at(site);
    case FaultArgument::next:
      return {"=next"};
    case FaultArgument::next_or_previous:
      if (!site.has_more_than_two_places) return {};  // there is no other peer
      return {"=next", "=previous"};
    case FaultArgument::bf16:
      return {"=bf16"};
    case FaultArgument::count:
      return {"=1"};
  }
  return {};
}

/// Whether a fault is also planted at one place of each group.
bool is_tried_at_one_place(FaultKind kind, const std::string& argument) {
  return kind == FaultKind::skip || kind == FaultKind::own_term || kind == FaultKind::nan ||
         kind == FaultKind::stale || (kind == FaultKind::scale && argument == "=1+2^-10");
}

}  // namespace

void CallsOfSite::add(const sim::CallRecord& call) {
  operations.insert(call.operation);
  if (sim::has_reduce_op(call.operation)) reductions.insert(call.reduce_op);
  has_more_than_two_places = has_more_than_two_places || call.group->size() > 2;
}

std::vector<Fault> planned_faults(const std::string& site, const CallsOfSite& calls) {
  std::vector<Fault> faults;
  for (const FaultInfo& fault : fault_table()) {
    const bool applies = fault.applies != nullptr && std::ranges::any_of(calls.operations, fault.applies);
    if (!applies) continue;
    for (const std::string& argument : arguments_at(calls, fault)) {
      const std::string text = fmt::format("{}:{}{}", site, fault.name, argument);
      faults.push_back(parsed_fault(text));
      if (is_tried_at_one_place(fault.kind, argument)) faults.push_back(parsed_fault(text + "@place=1"));
    }
  }
  return faults;
}

}  // namespace verify
