#include "verify/faults/fault.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/check.h"

namespace verify {

namespace {

using sim::Operation;

bool moves(Operation operation) { return sim::moves_data(operation); }
bool is_called(Operation operation) { return operation <= Operation::barrier; }
bool is_collective(Operation operation) { return moves(operation) && !sim::is_point_to_point(operation); }
bool gets_data(Operation operation) { return moves(operation) && operation != Operation::send; }
bool gives_data(Operation operation) { return moves(operation) && operation != Operation::recv; }
bool has_blocks(Operation operation) {
  return operation == Operation::reduce_scatter || operation == Operation::all_gather ||
         operation == Operation::gather || operation == Operation::scatter ||
         operation == Operation::all_to_all || operation == Operation::all_to_all_uneven;
}

constexpr bool kOfKernels = true;
constexpr bool kOfTensors = true;

constexpr auto kTable = std::to_array<FaultInfo>({
    {FaultKind::skip, "skip", FaultArgument::none, is_called,
     "The call is not made; its result is the rank's own part."},
    {FaultKind::twice, "twice", FaultArgument::none, is_called, "The call is made twice."},
    {FaultKind::late, "late", FaultArgument::none, is_called, "The call is made after the next call."},
    {FaultKind::early, "early", FaultArgument::none, is_called,
     "The call is made before the call that comes before it."},
    {FaultKind::no_wait, "no-wait", FaultArgument::none, gets_data,
     "Nobody waits for the call: its result arrives after the next call."},
    {FaultKind::wrong_group, "wrong-group", FaultArgument::group, is_called,
     "The call goes over the rank's group of another kind."},
    {FaultKind::op, "op", FaultArgument::reduce_op, sim::has_reduce_op,
     "The reduction has another operation."},
    {FaultKind::scale, "scale", FaultArgument::factor, gets_data, "The result is multiplied.", kOfKernels,
     kOfTensors},
    {FaultKind::root, "root", FaultArgument::next, sim::has_root, "The root is the next place of the group."},
    {FaultKind::peer, "peer", FaultArgument::next_or_previous, sim::is_point_to_point,
     "The peer is the next or the previous place."},
    {FaultKind::swap_blocks, "swap-blocks", FaultArgument::none, has_blocks,
     "The first two blocks change places."},
    {FaultKind::next_block, "next-block", FaultArgument::none, has_blocks,
     "Each block is that of the next place."},
    {FaultKind::own_term, "own-term", FaultArgument::none, is_collective,
     "The call is made, and its result is the rank's own part."},
    {FaultKind::stale, "stale", FaultArgument::none, gives_data,
     "The input is that of the call before at this site."},
    {FaultKind::dtype, "dtype", FaultArgument::bf16, gives_data, "The input is rounded to bf16 first.",
     !kOfKernels, !kOfTensors, true},
    {FaultKind::truncate, "truncate", FaultArgument::count, gets_data,
     "The last elements of the result are not written."},
    {FaultKind::nan, "nan", FaultArgument::none, gets_data,
     "The first element of the result is NaN, and in the field no number.", kOfKernels, kOfTensors},
    {FaultKind::zero, "zero", FaultArgument::none, nullptr, "The result of the kernel is 0.", kOfKernels,
     kOfTensors},
    {FaultKind::offset, "offset", FaultArgument::count, nullptr,
     "The result of the kernel is shifted by N elements, around its end.", kOfKernels, kOfTensors},
    {FaultKind::transpose, "transpose", FaultArgument::none, nullptr,
     "The elements of the kernel's result lie as those of its transpose.", kOfKernels, kOfTensors},
    {FaultKind::drop_accumulate, "drop-accumulate", FaultArgument::none, nullptr,
     "A kernel that adds to its result begins from 0.", kOfKernels},
});

/// What an argument looks like in help.
const char* form_of(FaultArgument argument) {
  switch (argument) {
    case FaultArgument::none:
      return "";
    case FaultArgument::group:
      return "=KIND";
    case FaultArgument::reduce_op:
      return "=max|min|average|product|sum";
    case FaultArgument::factor:
      return "=KIND|1/KIND|N|N/M|1+2^-K";
    case FaultArgument::next:
      return "=next";
    case FaultArgument::next_or_previous:
      return "=next|previous";
    case FaultArgument::bf16:
      return "=bf16";
    case FaultArgument::count:
      return "=ELEMENTS";
  }
  return "";
}

}  // namespace

std::span<const FaultInfo> fault_table() { return kTable; }

const FaultInfo& info_of(FaultKind kind) {
  const FaultInfo& info = kTable[static_cast<std::size_t>(kind)];
  SIM_CHECK(info.kind == kind);
  return info;
}

std::string form_of(const FaultInfo& info) { return fmt::format("{}{}", info.name, form_of(info.argument)); }

bool FaultWhere::has(const CallPlace& at) const {
  const sim::WorkPart& part = at.part;
  const bool is_of_rank = ranks.empty() || std::ranges::find(ranks, at.rank) != ranks.end();
  return is_of_rank && place.value_or(at.place) == at.place && (group.empty() || group == at.kind) &&
         (pass.empty() || pass == part.pass) && microbatch.value_or(part.microbatch) == part.microbatch &&
         layer.value_or(part.layer) == part.layer && step.value_or(part.step) == part.step;
}

std::vector<WherePart> FaultWhere::parts(const CallPlace& at) const {
  std::vector<WherePart> all;
  if (!ranks.empty()) {
    all.push_back({.text = fmt::format("rank={}", fmt::join(ranks, " or rank=")),
                   .has = std::ranges::find(ranks, at.rank) != ranks.end()});
  }
  if (place) all.push_back({.text = fmt::format("place={}", *place), .has = *place == at.place});
  if (!group.empty()) all.push_back({.text = "group=" + group, .has = group == at.kind});
  if (!pass.empty()) {
    const std::string_view own = at.part.pass;
    all.push_back({.text = "pass=" + pass, .of = "a pass", .is_of_one = !own.empty(), .has = pass == own});
  }
  const auto add = [&](const char* name, const char* of, const auto& wanted, std::int64_t own) {
    if (!wanted) return;
    all.push_back({.text = fmt::format("{}={}", name, *wanted),
                   .of = of,
                   .is_of_one = own != sim::WorkPart::kNone,
                   .has = *wanted == own});
  };
  add("microbatch", "a microbatch", microbatch, at.part.microbatch);
  add("layer", "a layer", layer, at.part.layer);
  add("step", "a step", step, at.part.step);
  return all;
}

void SeenPlaces::add(const FaultWhere& where, const CallPlace& call) {
  const std::lock_guard lock(mutex_);
  ++calls_;
  bool has_all = true;
  for (const WherePart& part : where.parts(call)) {
    has_all = has_all && part.has;
    if (part.has) had_.insert(part.text);
    if (!part.has && part.is_of_one) had_another_.insert(part.text);
  }
  have_all_ = have_all_ || has_all;
}

std::string SeenPlaces::why_unmet(const FaultWhere& where, const char* noun) const {
  const std::lock_guard lock(mutex_);
  if (calls_ == 0 && others_.empty()) return fmt::format("there was no {} of this name", noun);
  if (!others_.empty() && !have_all_)
    return fmt::format("the calls there are {}, to which it does not apply", fmt::join(others_, " and "));
  std::vector<std::string> given, missing;
  for (const WherePart& part : where.parts({})) {
    given.push_back(part.text);
    if (had_.contains(part.text)) continue;
    missing.push_back(had_another_.contains(part.text) ? fmt::format("no {} there has {}", noun, part.text)
                                                       : fmt::format("no {} there is of {}", noun, part.of));
  }
  if (!missing.empty()) return fmt::format("{}", fmt::join(missing, ", and "));
  if (!have_all_) return fmt::format("no {} there has {}", noun, fmt::join(given, " and "));
  if (where.call) return fmt::format("no rank makes a {} there that is number {}, from 0", noun, *where.call);
  return fmt::format("the {} there is the first of its rank", noun);  // early
}

void SeenPlaces::add_other(const FaultWhere& where, const CallPlace& call, sim::Operation operation) {
  if (!where.has(call)) return;
  const std::lock_guard lock(mutex_);
  others_.emplace(sim::name_of(operation));
}

void CallsBefore::add(int rank, std::int64_t call, const std::string& site) {
  const std::lock_guard lock(mutex_);
  calls_.insert({rank, call});
  sites_.insert(site);
}

bool Fault::fits(const std::string& call_site, sim::Operation operation) const {
  const FaultInfo& info = info_of(kind);
  return is_of_calls() && info.applies != nullptr && info.applies(operation) && fits_pattern(site, call_site);
}

bool Fault::is_at(const CallPlace& call) const {
  if (*met == 0) seen->add(where, call);
  return where.has(call);
}

std::vector<std::string> unmet_faults(const std::vector<Fault>& faults) {
  std::vector<std::string> unmet;
  for (const Fault& fault : faults) {
    if (*fault.met == 0) unmet.push_back(fault.text);
  }
  return unmet;
}

std::string text_of_unmet(const std::vector<Fault>& faults) {
  std::vector<std::string> unmet;
  for (const Fault& fault : faults) {
    if (*fault.met > 0) continue;
    const char* noun = fault.is_of_tensors() ? "tensor" : fault.is_of_kernels() ? "call of a kernel" : "call";
    unmet.push_back(
        fmt::format("nothing that ran has '{}': {}", fault.text, fault.seen->why_unmet(fault.where, noun)));
  }
  return fmt::format("{}", fmt::join(unmet, "; "));
}

/// The texts between the stars are found from left to right, each at its first place: if a later place fits,
/// the first one does, too.
bool fits_pattern(std::string_view pattern, std::string_view text) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == text;
  const std::string_view last = pattern.substr(pattern.rfind('*') + 1);
  if (text.size() < star + last.size()) return false;
  if (!text.starts_with(pattern.substr(0, star)) || !text.ends_with(last)) return false;
  text = text.substr(star, text.size() - star - last.size());
  pattern = pattern.substr(star, pattern.size() - star - last.size());  // "*between*"
  for (std::size_t end = 0; pattern.size() > 1; pattern.remove_prefix(end)) {
    end = pattern.find('*', 1);
    const std::string_view between = pattern.substr(1, end - 1);
    const std::size_t at = text.find(between);
    if (at == std::string_view::npos) return false;
    text.remove_prefix(at + between.size());
  }
  return true;
}

}  // namespace verify
