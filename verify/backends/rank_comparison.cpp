#include "verify/backends/rank_comparison.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <string_view>

namespace verify {

namespace {

std::string hex_text(const std::vector<std::byte>& values, std::int64_t element, std::int64_t size) {
  std::string text;  // the last byte in memory comes first, so that the digits read as a little-endian number
  for (std::int64_t i = size; i-- > 0;)
    text +=
        fmt::format("{:02x}", static_cast<unsigned>(values[static_cast<std::size_t>(element * size + i)]));
  return text;
}

std::string difference_of(const sim::Published& simulated, const sim::Published& other,
                          const std::string& name, Compared compared) {
  if (simulated.name != other.name)
    return fmt::format("the simulated rank published '{}', the {} rank '{}'", simulated.name, name,
                       other.name);
  if (simulated.dtype != other.dtype || simulated.shape != other.shape)
    return fmt::format("tensor '{}' has another dtype or shape on the {} rank", simulated.name, name);
  if (compared == Compared::shapes) return "";
  const auto [first, second] = std::mismatch(simulated.values.begin(), simulated.values.end(),
                                             other.values.begin(), other.values.end());
  if (first == simulated.values.end() && second == other.values.end()) return "";
  const std::int64_t size = sim::size_of(simulated.dtype);
  const std::int64_t element = (first - simulated.values.begin()) / size;
  return fmt::format("tensor '{}', element {} of {} ({}): simulated {}, {} {}", simulated.name, element,
                     simulated.shape.count(), sim::name_of(simulated.dtype),
                     hex_text(simulated.values, element, size), name, hex_text(other.values, element, size));
}

bool is_same(const sim::CallRecord& a, const sim::CallRecord& b) {
  return a.group->kind == b.group->kind && a.group->index == b.group->index &&
         a.group->members == b.group->members && std::string_view(a.site.name) == b.site.name &&
         a.sequence == b.sequence && a.count == b.count && a.bytes_inside == b.bytes_inside &&
         a.bytes_across == b.bytes_across && a.root_or_peer == b.root_or_peer && a.operation == b.operation &&
         a.dtype == b.dtype && a.reduce_op == b.reduce_op && a.waited == b.waited;
}

std::string text_of(const sim::CallRecord& call) {
  return fmt::format("{} of {} x {} at {}, call {} of {}", sim::name_of(call.operation), call.count,
                     sim::name_of(call.dtype), sim::text_of(call.site), call.sequence,
                     sim::text_of(*call.group));
}

}  // namespace

RankComparison compare_ranks(const sim::RankReport& simulated, const sim::RankReport& other,
                             const std::string& name, Compared compared) {
  RankComparison result;
  const auto differs = [&](const std::string& text) {
    if (result.is_equal()) result.difference = fmt::format("rank {}: {}", simulated.rank, text);
  };
  const std::size_t tensors = std::min(simulated.published.size(), other.published.size());
  for (std::size_t i = 0; i < tensors; ++i) {
    ++result.tensors;
    result.bytes += std::ssize(simulated.published[i].values);
    const std::string text = difference_of(simulated.published[i], other.published[i], name, compared);
    if (!text.empty()) differs(text);
  }
  if (simulated.published.size() != other.published.size())
    differs(fmt::format("the simulated rank published {} tensors, and the {} rank {}",
                        simulated.published.size(), name, other.published.size()));
  const std::size_t calls = std::min(simulated.calls.size(), other.calls.size());
  for (std::size_t i = 0; i < calls; ++i) {
    ++result.calls;
    if (!is_same(simulated.calls[i], other.calls[i]))
      differs(fmt::format("the simulated rank made {}, and the {} rank {}", text_of(simulated.calls[i]), name,
                          text_of(other.calls[i])));
  }
  if (simulated.calls.size() != other.calls.size())
    differs(fmt::format("the simulated rank made {} calls, and the {} rank {}", simulated.calls.size(), name,
                        other.calls.size()));
  return result;
}

}  // namespace verify
