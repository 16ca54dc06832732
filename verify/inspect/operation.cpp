#include "verify/inspect/operation.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <iterator>
#include <system_error>
#include <utility>

namespace verify {

namespace {

/// The names that PyTorch's backends have for an operation, each between blanks, and ours.
constexpr std::pair<std::string_view, std::string_view> kAliases[] = {
    {" _all_gather_base _allgather_base all_gather_into_tensor all_gather_into_tensor_coalesced "
     "allgather_into_tensor_coalesced allgather ",
     "all_gather"},
    {" _reduce_scatter_base reduce_scatter_tensor reduce_scatter_tensor_coalesced ", "reduce_scatter"},
    {" allreduce allreduce_coalesced ", "all_reduce"},
    {" all_reduce_barrier ", "barrier"},
    {" all_to_all_single alltoall alltoall_base ", "all_to_all"},
    {" _broadcast_oop ", "broadcast"},
    {" _reduce_oop ", "reduce"}};

constexpr std::string_view kRooted[] = {"broadcast", "reduce", "gather", "scatter"};

/// Reads "0->3" or "3<-0" into the positions that send and receive.
void read_peers(std::string_view text, Operation& operation) {
  const char* const end = text.data() + text.size();
  int first = -1, second = -1;
  const auto [sign, error] = std::from_chars(text.data(), end, first);
  if (error != std::errc() || end - sign < 3) return;
  const std::string_view arrow(sign, 2);
  const auto [last, problem] = std::from_chars(sign + 2, end, second);
  if (problem != std::errc() || last != end || first < 0 || second < 0) return;
  if (arrow == "->") {
    operation.from = first;
    operation.to = second;
  } else if (arrow == "<-") {
    operation.from = second;
    operation.to = first;
  }
}

}  // namespace

Operation operation_named(std::string_view recorded) {
  Operation operation;
  const std::size_t colon = recorded.find(':');
  if (colon != std::string_view::npos) {
    operation.backend = std::string(recorded.substr(0, colon));
    recorded.remove_prefix(colon + 1);
  }
  const std::size_t blank = recorded.find(' ');
  const std::string_view name = recorded.substr(0, blank);
  operation.name = std::string(recorded);
  if (name == "send" || name == "recv") {
    operation.kind = name == "send" ? Operation::Kind::send : Operation::Kind::recv;
    if (blank == std::string_view::npos) return operation;
    operation.name = std::string(name);
    read_peers(recorded.substr(blank + 1), operation);
    return operation;
  }
  for (const auto& [names, own] : kAliases)
    if (names.find(fmt::format(" {} ", recorded)) != std::string_view::npos)
      operation.name = std::string(own);
  if (std::ranges::find(kRooted, operation.name) != std::end(kRooted))
    operation.kind = Operation::Kind::rooted;
  return operation;
}

}  // namespace verify
