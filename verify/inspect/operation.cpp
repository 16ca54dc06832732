#include "verify/inspect/operation.h"

#include <charconv>
#include <iterator>
#include <system_error>

namespace verify {

namespace {

/// Names of one operation in PyTorch's backends.
struct Alias {
  std::string_view recorded, name;
};
constexpr Alias kAliases[] = {{"_all_gather_base", "all_gather"},
                              {"_allgather_base", "all_gather"},
                              {"all_gather_into_tensor", "all_gather"},
                              {"all_gather_into_tensor_coalesced", "all_gather"},
                              {"allgather_into_tensor_coalesced", "all_gather"},
                              {"allgather", "all_gather"},
                              {"_reduce_scatter_base", "reduce_scatter"},
                              {"reduce_scatter_tensor", "reduce_scatter"},
                              {"reduce_scatter_tensor_coalesced", "reduce_scatter"},
                              {"allreduce", "all_reduce"},
                              {"allreduce_coalesced", "all_reduce"},
                              {"all_reduce_barrier", "barrier"},
                              {"all_to_all_single", "all_to_all"},
                              {"alltoall", "all_to_all"},
                              {"alltoall_base", "all_to_all"},
                              {"_broadcast_oop", "broadcast"},
                              {"_reduce_oop", "reduce"}};

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
  if ((name == "send" || name == "recv") && blank != std::string_view::npos) {
    operation.kind = name == "send" ? Operation::Kind::send : Operation::Kind::recv;
    operation.name = std::string(name);
    read_peers(recorded.substr(blank + 1), operation);
    return operation;
  }
  operation.name = std::string(recorded);
  for (const Alias& alias : kAliases) {
    if (alias.recorded == recorded) operation.name = std::string(alias.name);
  }
  for (const std::string_view rooted : kRooted) {
    if (operation.name == rooted) operation.kind = Operation::Kind::rooted;
  }
  if (name == "send" || name == "recv")
    operation.kind = name == "send" ? Operation::Kind::send : Operation::Kind::recv;
  return operation;
}

}  // namespace verify
