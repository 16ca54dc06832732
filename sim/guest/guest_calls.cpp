#include "sim/guest/guest_calls.h"

#include <fmt/format.h>
#include <string>

#include "sim/base/error.h"

namespace sim {

void GuestCalls::refuse_request(std::string numbers, const char* rule) const {
  refuse({.code = "guest_request",
          .option = "its request",
          .numbers = std::move(numbers),
          .rule = rule,
          .hint = "the client of this version"});
}

Communicator& GuestCalls::group_of(std::size_t number) const {
  if (number >= groups_.size() || groups_[number] == nullptr)
    refuse_request(fmt::format("a call in group {}", number),
                   "a rank calls in groups that it is a member of");
  return *groups_[number];
}

Tensor GuestCalls::input_of(const GuestCall& call) { return call.input ? tensor_of(*call.input) : Tensor(); }
Tensor GuestCalls::output_of(const GuestCall& call) {
  return call.output ? tensor_of(*call.output) : Tensor();
}

Tensor GuestCalls::in_place(const GuestCall& call) {
  if (!call.output)
    refuse_request(fmt::format("{} without an output", name_of(call.operation)), "it works in place");
  return output_of(call);
}

void GuestCalls::require_reducible(const GuestCall& call) const {
  if (call.output && has_reduce_op(call.operation) && !is_reducible(call.output->dtype))
    refuse_request(fmt::format("{} of {}", name_of(call.operation), name_of(call.output->dtype)),
                   "values of this dtype are only moved");
}

Work GuestCalls::start_one(const GuestCall& call, const Site& site) {
  require_reducible(call);
  Communicator& group = group_of(call.group);
  switch (call.operation) {
    case Operation::all_reduce:
      return group.start_all_reduce(in_place(call), call.reduce_op, site);
    case Operation::reduce_scatter:
      return group.start_reduce_scatter(input_of(call), output_of(call), call.reduce_op, site);
    case Operation::all_gather:
      return group.start_all_gather(input_of(call), output_of(call), site);
    case Operation::broadcast:
      return group.start_broadcast(in_place(call), call.root, site);
    case Operation::reduce:
      return group.start_reduce(in_place(call), call.reduce_op, call.root, site);
    case Operation::gather:
      return group.start_gather(input_of(call), output_of(call), call.root, site);
    case Operation::scatter:
      return group.start_scatter(input_of(call), output_of(call), call.root, site);
    case Operation::all_to_all:
      return group.start_all_to_all(input_of(call), output_of(call), site);
    case Operation::all_to_all_uneven:
      return group.start_all_to_all_uneven(input_of(call), call.send, output_of(call), call.receive, site);
    case Operation::send:
      return group.start_send(input_of(call), call.peer, site);
    case Operation::recv:
      return group.start_recv(in_place(call), call.peer, site);
    default:
      return group.start_barrier(site);
  }
}

Work GuestCalls::start_batch(const GuestRequest& request) {
  std::vector<PointToPoint> messages;
  for (const GuestCall& call : request.calls) {
    if (!is_point_to_point(call.operation) || call.group != request.calls.front().group)
      refuse_request(fmt::format("{} in group {}", name_of(call.operation), call.group),
                     "a batch has sends and receives of one group");
    const bool sends = call.operation == Operation::send;
    messages.push_back({call.operation, sends ? input_of(call) : in_place(call), call.peer});
  }
  if (messages.empty()) refuse_request("a batch of no calls", "a batch has sends and receives of one group");
  return group_of(request.calls.front().group).start_batch(messages, request.site);
}

void GuestCalls::start(std::size_t number, const GuestRequest& request) {
  started_.emplace(number, request.wish == GuestWish::batch ? start_batch(request)
                                                            : start_one(request.calls.front(), request.site));
}

void GuestCalls::wait(std::size_t call) {
  const auto found = started_.find(call);
  if (found == started_.end())
    refuse_request(fmt::format("a wait for call {}", call), "a call is waited for once");
  found->second.wait();
  started_.erase(found);
}

std::pair<std::size_t, int> GuestCalls::new_group(const GuestRequest& request) {
  Communicator* made = rank_.groups.new_group(request.name, request.members, request.site);
  groups_.push_back(made);
  return {groups_.size() - 1, made == nullptr ? -1 : made->rank()};
}

}  // namespace sim
