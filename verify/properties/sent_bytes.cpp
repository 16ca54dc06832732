#include "verify/properties/sent_bytes.h"

#include <fmt/format.h>

#include "verify/cases/expected_call.h"
#include "verify/reference/ring_elements.h"

namespace verify {

namespace {

using sim::Operation;

struct Sent {
  int to = 0;                 // a place in the group
  std::int64_t elements = 0;  // of the dtype of the call
};

std::vector<Sent> to_others(const std::vector<std::int64_t>& elements_to, int own) {
  std::vector<Sent> sent;
  for (int to = 0; to < std::ssize(elements_to); ++to) {
    if (to != own) sent.push_back({to, elements_to[static_cast<std::size_t>(to)]});
  }
  return sent;
}

std::vector<Sent> to_all_others(int places, int own, std::int64_t elements) {
  return to_others(std::vector<std::int64_t>(static_cast<std::size_t>(places), elements), own);
}

std::vector<Sent> sent_by(const sim::CallRecord& call, int place,
                          const std::vector<std::int64_t>& elements_to) {
  const int places = call.group->size();
  if (places == 1) return {};
  const int next = place + 1 == places ? 0 : place + 1;
  const bool is_root = place == call.root_or_peer;
  const auto unless = [](bool has_none, const Sent& sent) {
    return std::vector<Sent>(has_none ? 0 : 1, sent);
  };
  switch (call.operation) {
    case Operation::all_reduce:
      return {{next, reference::all_reduce_elements(call.count, places, place)}};
    case Operation::reduce_scatter:
    case Operation::all_gather:
      return {{next, call.count * (places - 1)}};
    case Operation::broadcast:
      return unless(next == call.root_or_peer, {next, call.count});
    case Operation::reduce:
      return unless(is_root, {next, call.count});
    case Operation::gather:
      return unless(is_root, {call.root_or_peer, call.count});
    case Operation::scatter:
      return is_root ? to_all_others(places, place, call.count) : std::vector<Sent>();
    case Operation::all_to_all:
      return to_all_others(places, place, call.count);
    case Operation::all_to_all_uneven:
      return to_others(elements_to, place);
    case Operation::send:
      return {{call.root_or_peer, call.count}};
    default:
      return {};
  }
}

}  // namespace

std::string wrong_bytes(const sim::CallRecord& call, int rank, const std::vector<std::int64_t>& elements_to) {
  if (call.operation == Operation::all_to_all_uneven && elements_to.empty()) return "";
  const sim::ProcessGroup& group = *call.group;
  const auto node_of = [&](int member) { return member / group.gpus_per_node; };
  std::int64_t inside = 0, across = 0;
  for (const Sent& sent : sent_by(call, group.place_of(rank), elements_to)) {
    const bool is_near = node_of(group.rank_at(sent.to)) == node_of(rank);
    (is_near ? inside : across) += sent.elements * sim::size_of(call.dtype);
  }
  if (inside == call.bytes_inside && across == call.bytes_across) return "";
  return fmt::format(
      "{} in a group of {}: the ledger has {} bytes inside the node and {} across nodes, but the ring sends "
      "{} and {}",
      text_of(as_expected(call)), group.size(), call.bytes_inside, call.bytes_across, inside, across);
}

}  // namespace verify
