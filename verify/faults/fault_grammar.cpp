#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/error.h"
#include "sim/layout/kind_table.h"
#include "verify/faults/fault.h"
#include "verify/faults/faulty_device.h"
#include "verify/vocabulary/nearest_name.h"

namespace verify {

namespace {

constexpr const char* kForm =
    "SITE:FAULT[=ARGUMENT][@WHERE], as in 'row_parallel_linear.forward:skip@rank=1'";

[[noreturn]] void refuse_fault(const char* code, const std::string& text, std::string numbers,
                               std::string rule, std::string hint) {
  sim::refuse({.code = code,
               .option = fmt::format("--plant {}", text),
               .numbers = std::move(numbers),
               .rule = std::move(rule),
               .hint = std::move(hint)});
}

std::optional<std::int64_t> whole_number(std::string_view digits) {
  constexpr std::size_t kMostDigits = 9;
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool is_whole = error == std::errc() && end == digits.data() + digits.size();
  return is_whole && number >= 0 && digits.size() <= kMostDigits ? std::optional(number) : std::nullopt;
}

bool is_kind(const std::string& name) { return name == "world" || sim::find_kind(name) != nullptr; }

/// Parses "tp", "1/tp", "3", "2/3", "1+2^-10" and "1-2^-10".
std::optional<Factor> parsed_factor(const std::string& text) {
  const std::string one_over = "1/";
  const bool is_inverse = text.starts_with(one_over) && is_kind(text.substr(one_over.size()));
  if (is_inverse) return Factor{.kind = text.substr(one_over.size()), .is_inverse = true};
  if (is_kind(text)) return Factor{.kind = text};
  if (text.starts_with("1+2^-") || text.starts_with("1-2^-")) {
    constexpr std::size_t kPrefix = 5;
    constexpr std::int64_t kMostBits = 52;  // 1 + 2^-52 is the smallest number above 1 in f64
    const auto bits = whole_number(std::string_view(text).substr(kPrefix));
    if (!bits || *bits > kMostBits) return std::nullopt;
    const std::int64_t whole = std::int64_t{1} << *bits;
    return Factor{.number = {text[1] == '+' ? whole + 1 : whole - 1, whole}};
  }
  const bool is_negative = text.starts_with("-");
  const std::string_view digits = std::string_view(text).substr(is_negative ? 1 : 0);
  const std::size_t slash = std::min(digits.find('/'), digits.size());
  const auto above = whole_number(digits.substr(0, slash));
  const auto below =
      slash == digits.size() ? std::optional<std::int64_t>(1) : whole_number(digits.substr(slash + 1));
  if (!above || !below || *below == 0) return std::nullopt;
  return Factor{.number = {is_negative ? -*above : *above, *below}};
}

/// Reads the argument into the fault. Returns whether it is one that the fault takes.
bool take_argument(Fault& fault, const std::string& argument) {
  switch (info_of(fault.kind).argument) {
    case FaultArgument::none:
      return argument.empty();
    case FaultArgument::group:
      fault.group = argument;
      return is_kind(argument);
    case FaultArgument::reduce_op:
      for (const auto op : {sim::ReduceOp::sum, sim::ReduceOp::max, sim::ReduceOp::min,
                            sim::ReduceOp::product, sim::ReduceOp::average}) {
        if (argument != sim::name_of(op)) continue;
        fault.reduce_op = op;
        return true;
      }
      return false;
    case FaultArgument::factor: {
      const std::optional<Factor> factor = parsed_factor(argument);
      if (factor) fault.factor = *factor;
      return factor.has_value();
    }
    case FaultArgument::next:
      return argument == "next";
    case FaultArgument::next_or_previous:
      fault.step = argument == "previous" ? -1 : 1;
      return argument == "next" || argument == "previous";
    case FaultArgument::bf16:
      return argument == "bf16";
    case FaultArgument::count: {
      const auto elements = whole_number(argument);
      fault.elements = elements.value_or(0);
      return fault.elements > 0;
    }
  }
  return false;
}

/// Reads one "name=value" of WHERE. Returns whether it is one.
bool take_where(FaultWhere& where, const std::string& name, const std::string& value) {
  if (name == "group") {
    where.group = value;
    return is_kind(value);
  }
  if (name == "pass") {
    where.pass = value;
    return value == "forward" || value == "backward";
  }
  const auto number = whole_number(value);
  if (!number) return false;
  if (name == "rank") {
    where.ranks.push_back(static_cast<int>(*number));
  } else if (name == "place") {
    where.place = static_cast<int>(*number);
  } else if (name == "call") {
    where.call = *number;
  } else if (name == "microbatch") {
    where.microbatch = *number;
  } else if (name == "layer") {
    where.layer = *number;
  } else if (name == "step") {
    where.step = *number;
  } else {
    return false;
  }
  return true;
}

void take_places(Fault& fault, std::string_view places) {
  while (true) {
    const std::size_t end = std::min(places.find(','), places.size());
    const std::string_view part = places.substr(0, end);
    const std::size_t equals = std::min(part.find('='), part.size());
    const std::string value(part.substr(std::min(equals + 1, part.size())));
    if (!take_where(fault.where, std::string(part.substr(0, equals)), value))
      refuse_fault("bad_fault_where", fault.text, fmt::format("'{}' after @", part),
                   "the parts after @ are rank=R, place=P, call=N, group=KIND, pass=forward|backward, "
                   "microbatch=N, layer=N and step=N, with commas between them",
                   "@rank=0,call=1");
    if (end == places.size()) return;
    places.remove_prefix(end + 1);
  }
}

/// Returns what can have a fault: "calls", or "kernels and published tensors".
std::string places_of(const FaultInfo& info) {
  std::vector<const char*> places;
  if (info.applies != nullptr) places.push_back("calls");
  if (info.is_of_kernels) places.push_back("kernels");
  if (info.is_of_tensors) places.push_back("published tensors");
  return fmt::format("{}", fmt::join(places, " and "));
}

/// Refuses what only a call has, in a fault of a kernel or of a tensor.
void require_no_group(const Fault& fault) {
  const char* what = fault.is_of_kernels() ? "a kernel" : "a published tensor";
  const FaultWhere& where = fault.where;
  const bool has_group = where.place || !where.group.empty();
  const char* missing = has_group                             ? "group"
                        : where.names_a_part()                ? "part of a training"
                        : where.call && fault.is_of_tensors() ? "calls"
                                                              : nullptr;
  if (missing != nullptr)
    refuse_fault("bad_fault_where", fault.text, fmt::format("{} has no {}", what, missing),
                 "a fault of a kernel takes rank=R and call=N after @, and that of a tensor rank=R",
                 "@rank=0");
  if (!fault.factor.kind.empty())
    refuse_fault("bad_fault_argument", fault.text, fmt::format("{} has no group", what),
                 "the factor of a kernel or of a published tensor is a number", "scale=2 or scale=1+2^-10");
}

}  // namespace

Fault parsed_fault(const std::string& text) {
  const std::size_t at = std::min(text.find('@'), text.size());
  const std::string head = text.substr(0, at);
  const std::size_t colon = head.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == head.size())
    refuse_fault("bad_fault", text, "there is no site, or no fault",
                 std::string("a fault is written ") + kForm, "shardproof list");
  Fault fault{.text = text, .site = head.substr(0, colon)};
  const std::string what = head.substr(colon + 1);
  const std::size_t equals = std::min(what.find('='), what.size());
  const std::string name = what.substr(0, equals);
  const auto rows = fault_table();
  const auto row = std::ranges::find_if(rows, [&](const FaultInfo& info) { return name == info.name; });
  if (row == rows.end()) {
    std::vector<std::string> names;
    for (const FaultInfo& info : rows) names.emplace_back(info.name);
    const std::string nearest = nearest_name(name, names);
    refuse_fault("unknown_fault", text, fmt::format("'{}'", name),
                 fmt::format("the faults are {}", fmt::join(names, ", ")),
                 nearest.empty() ? "shardproof list" : fmt::format("--plant {}:{}", fault.site, nearest));
  }
  fault.kind = row->kind;
  const std::string argument = what.substr(std::min(equals + 1, what.size()));
  if (!take_argument(fault, argument))
    refuse_fault("bad_fault_argument", text,
                 argument.empty() ? std::string("no argument") : fmt::format("'{}'", argument),
                 fmt::format("the fault is written {}", form_of(*row)), "shardproof list");
  const bool fits = fault.is_of_kernels()   ? row->is_of_kernels
                    : fault.is_of_tensors() ? row->is_of_tensors
                                            : row->applies != nullptr;
  if (!fits)
    refuse_fault("bad_fault", text, fmt::format("{} is a fault of {}", name, places_of(*row)),
                 "the site of a kernel begins with 'device.', that of a published tensor with 'tensor.', and "
                 "that of a call with neither",
                 "shardproof list");
  if (at < text.size()) take_places(fault, std::string_view(text).substr(at + 1));
  if (!fault.is_of_calls()) require_no_group(fault);
  return fault;
}

std::vector<Fault> parsed_faults(const std::vector<std::string>& texts) {
  std::vector<Fault> faults;
  for (const std::string& text : texts) faults.push_back(parsed_fault(text));
  return faults;
}

namespace {

void require_kernel(const Fault& fault) {
  const std::vector<std::string> kernels = kernel_names();
  const bool is_known = std::ranges::any_of(
      kernels, [&](const std::string& kernel) { return fits_pattern(fault.site, kernel); });
  if (is_known) return;
  const std::string nearest = nearest_name(fault.site, kernels);
  refuse_fault("no_such_site", fault.text, "no kernel has this site",
               fmt::format("the kernels are {}", fmt::join(kernels, ", ")),
               (nearest.empty() ? kernels.front() : nearest) + fault.text.substr(fault.site.size()));
}

/// Returns the names with commas between them, as many as a refusal has room for, and the number of others.
std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t kRoom = 250;
  std::string text;
  std::size_t count = 0;
  for (; count < names.size() && text.size() + names[count].size() <= kRoom; ++count)
    text += (count == 0 ? "" : ", ") + names[count];
  if (count == names.size()) return text;
  return fmt::format("{} and {} more, which check --sites lists", text, names.size() - count);
}

void require_tensor(const Fault& fault, std::span<const SiteOperation> sites) {
  std::vector<std::string> names;
  for (const SiteOperation& one : sites) {
    if (!one.is_tensor()) continue;
    if (fits_pattern(fault.site, one.site)) return;
    names.push_back(one.site);
  }
  const std::string nearest = nearest_name(fault.site, names);
  refuse_fault("no_such_site", fault.text, "no tensor that is published here has this name",
               fmt::format("the tensors are {}", listed(names)),
               nearest.empty() ? "a tensor of this list, or a pattern such as tensor.grad*"
                               : nearest + fault.text.substr(fault.site.size()));
}

/// Returns a fault that may have been meant: this one at the nearest site that takes it, or another one here.
std::string hint_of_call(const Fault& fault, std::span<const SiteOperation> sites) {
  const FaultInfo& info = info_of(fault.kind);
  std::vector<std::string> taking;
  bool is_site = false, has_calls = false;
  for (const SiteOperation& one : sites) {
    if (one.is_tensor()) continue;
    has_calls = true;
    is_site = is_site || fits_pattern(fault.site, one.site);
    if (info.applies(one.operation)) taking.push_back(one.site);
  }
  if (!has_calls) return "another --case, or a kernel such as device.matmul";
  const std::string nearest = nearest_name(fault.site, taking);
  if (!nearest.empty()) return nearest + fault.text.substr(fault.site.size());
  return is_site ? "another fault of those that shardproof list shows, or another site of this list"
                 : "a site of this list, or a pattern such as *.forward";
}

void require_call(const Fault& fault, std::span<const SiteOperation> sites) {
  std::vector<std::string> names, others;
  for (const SiteOperation& one : sites) {
    if (one.is_tensor()) continue;
    if (fault.fits(one.site, one.operation)) return;
    if (fits_pattern(fault.site, one.site)) others.emplace_back(sim::name_of(one.operation));
    if (names.empty() || names.back() != one.site) names.push_back(one.site);
  }
  refuse_fault("no_such_site", fault.text,
               others.empty() ? std::string("no call of these cases has this site")
                              : fmt::format("'{}' does not apply to {}", info_of(fault.kind).name,
                                            fmt::join(others, ", ")),
               names.empty() ? std::string("these cases make no calls")
                             : fmt::format("the sites are {}", listed(names)),
               hint_of_call(fault, sites));
}

}  // namespace

void require_sites(const std::vector<Fault>& faults, std::span<const SiteOperation> sites) {
  for (const Fault& fault : faults) {
    if (fault.is_of_kernels()) {
      require_kernel(fault);
    } else if (fault.is_of_tensors()) {
      require_tensor(fault, sites);
    } else {
      require_call(fault, sites);
    }
  }
}

}  // namespace verify
