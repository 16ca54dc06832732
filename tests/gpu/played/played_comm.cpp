#include "tests/gpu/played/played_comm.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "sim/base/check.h"
#include "tests/gpu/played/played_fold.h"

namespace test {

namespace {

using gpu::NcclOperation;
using gpu::NcclRequest;

bool is_collective(NcclOperation operation) { return operation < NcclOperation::send; }

std::size_t bytes_of(const NcclRequest& request) {
  return static_cast<std::size_t>(request.count * sim::size_of(request.dtype));
}

}  // namespace

std::size_t bytes_read(const NcclRequest& request, int members) {
  if (request.from == nullptr) return 0;
  const bool is_of_all = request.operation == NcclOperation::reduce_scatter;
  return (is_of_all ? static_cast<std::size_t>(members) : 1) * bytes_of(request);
}

std::size_t bytes_written(const NcclRequest& request, int members) {
  if (request.to == nullptr) return 0;
  const bool is_of_all = request.operation == NcclOperation::all_gather;
  return (is_of_all ? static_cast<std::size_t>(members) : 1) * bytes_of(request);
}

bool PlayedComm::Group::is_over() const {
  return std::all_of(is_done.begin(), is_done.end(), [](bool done) { return done; });
}

bool PlayedComm::all_split(std::size_t number) const {
  return std::all_of(members_.begin(), members_.end(),
                     [&](const Member& member) { return member.splits.size() > number; });
}

std::vector<PlayedComm::Child> PlayedComm::children_of(std::size_t number) {
  std::vector<Child> children(members_.size());
  std::vector<std::tuple<int, int, std::size_t>> order;
  for (std::size_t i = 0; i < members_.size(); ++i)
    order.emplace_back(members_[i].splits[number].first, members_[i].splits[number].second, i);
  std::sort(order.begin(), order.end());
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin;
    std::vector<int> of_color;
    while (end < order.size() && std::get<0>(order[end]) == std::get<0>(order[begin]))
      of_color.push_back(ranks_[std::get<2>(order[end++])]);
    if (std::get<0>(order[begin]) >= 0) {
      if (of_color.size() == 1) ++rules_.lonely;
      const auto comm = std::make_shared<PlayedComm>(rules_, of_color);
      for (std::size_t i = begin; i < end; ++i) children[std::get<2>(order[i])] = {comm, i - begin};
    }
    begin = end;
  }
  return children;
}

std::size_t PlayedComm::split(std::size_t place, int color, int key) {
  members_[place].splits.emplace_back(color, key);
  while (all_split(children_.size())) children_.push_back(children_of(children_.size()));
  return members_[place].splits.size() - 1;
}

void PlayedComm::put(std::size_t place, std::vector<NcclRequest> requests) {
  Member& member = members_[place];
  ++member.put;
  if (requests.empty()) return;
  const std::size_t count = requests.size();
  member.waiting.push_back({std::move(requests), std::vector<bool>(count, false)});
  while (run_copies() || run_collective() || run_message()) {
  }
}

/// Gives one member its result of a collective that all members have come to.
void PlayedComm::give(const std::vector<const NcclRequest*>& given, int place) const {
  const NcclRequest& own = *given[static_cast<std::size_t>(place)];
  if (own.to == nullptr) return;
  switch (own.operation) {
    case NcclOperation::all_reduce:
    case NcclOperation::reduce_scatter:
      return play_fold(given, place, rules_.folds_by_rank);
    case NcclOperation::reduce:
      if (place == given.front()->peer) play_fold(given, place, rules_.folds_by_rank);
      return;
    case NcclOperation::all_gather:
      for (std::size_t from = 0; from < given.size(); ++from)
        std::memcpy(own.to + from * bytes_of(own), given[from]->from, bytes_of(own));
      return;
    case NcclOperation::broadcast:
      std::memcpy(own.to, given[static_cast<std::size_t>(given.front()->peer)]->from, bytes_of(own));
      return;
    default:
      SIM_CHECK(false);
  }
}

bool PlayedComm::run_collective() {
  std::vector<const NcclRequest*> heads;
  for (const Member& member : members_) {
    if (member.waiting.empty() || !is_collective(member.waiting.front().requests.front().operation))
      return false;
    heads.push_back(&member.waiting.front().requests.front());
  }
  const NcclRequest first = *heads.front();
  for (const NcclRequest* head : heads) {  // if they differ, NCCL hangs or gives anything
    if (head->operation != first.operation || head->count != first.count || head->dtype != first.dtype)
      return false;
  }
  std::vector<std::vector<std::byte>> inputs;  // members may read what other members write
  std::vector<NcclRequest> copies;
  for (const NcclRequest* head : heads) {
    inputs.emplace_back(bytes_read(*head, size()));
    if (head->from != nullptr) std::memcpy(inputs.back().data(), head->from, inputs.back().size());
    copies.push_back(*head);
    copies.back().from = inputs.back().data();
  }
  std::vector<const NcclRequest*> given;
  for (const NcclRequest& copy : copies) given.push_back(&copy);
  for (int place = 0; place < size(); ++place) give(given, place);
  for (Member& member : members_) pop(member);
  return true;
}

void PlayedComm::pop(Member& member) {
  member.waiting.pop_front();
  ++member.over;
}

/// Returns the first request in the member's first waiting group that has this operation and peer and is
/// not done.
std::optional<std::size_t> PlayedComm::pending(std::size_t member, NcclOperation operation,
                                               std::size_t peer) const {
  if (members_[member].waiting.empty()) return std::nullopt;
  const Group& group = members_[member].waiting.front();
  for (std::size_t i = 0; i < group.requests.size(); ++i) {
    const NcclRequest& request = group.requests[i];
    if (!group.is_done[i] && request.operation == operation && request.peer == static_cast<int>(peer))
      return i;
  }
  return std::nullopt;
}

bool PlayedComm::run_message() {
  for (std::size_t from = 0; from < members_.size(); ++from) {
    for (std::size_t to = 0; to < members_.size(); ++to) {
      const auto send = pending(from, NcclOperation::send, to);
      const auto recv = pending(to, NcclOperation::recv, from);
      if (!send || !recv) continue;
      Group& given = members_[from].waiting.front();
      Group& got = members_[to].waiting.front();
      const NcclRequest& sent = given.requests[*send];
      const NcclRequest& received = got.requests[*recv];
      if (bytes_of(sent) != bytes_of(received)) continue;  // NCCL hangs or gives anything
      std::memcpy(received.to, sent.from, bytes_of(sent));
      given.is_done[*send] = got.is_done[*recv] = true;
      if (given.is_over()) pop(members_[from]);
      if (&given != &got && got.is_over()) pop(members_[to]);
      return true;
    }
  }
  return false;
}

bool PlayedComm::run_copies() {
  bool ran = false;
  for (Member& member : members_) {
    if (member.waiting.empty()) continue;
    Group& group = member.waiting.front();
    for (std::size_t i = 0; i < group.requests.size(); ++i) {
      if (group.is_done[i] || group.requests[i].operation != NcclOperation::copy) continue;
      std::memmove(group.requests[i].to, group.requests[i].from, bytes_of(group.requests[i]));
      group.is_done[i] = true;
      ran = true;
    }
    if (group.is_over()) pop(member);
  }
  return ran;
}

}  // namespace test
