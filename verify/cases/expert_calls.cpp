#include "verify/cases/expert_calls.h"

#include <algorithm>

namespace verify {

using sim::Operation;
using sim::TokenDispatcherType;

namespace {

constexpr const char* kCounts = "token_dispatcher.counts";
constexpr const char* kMap = "token_dispatcher.map";
constexpr const char* kDispatch = "token_dispatcher.dispatch";
constexpr const char* kDispatchProbs = "token_dispatcher.dispatch_probs";
constexpr const char* kCombine = "token_dispatcher.combine";
constexpr const char* kCombineBackward = "token_dispatcher.combine_backward";
constexpr const char* kDispatchBackward = "token_dispatcher.dispatch_backward";
constexpr const char* kProbsBackward = "token_dispatcher.probs_backward";

}  // namespace

std::int64_t ExpertCalls::rows(int from, int ep_rank) const {
  if (!rows_to_ep.empty()) return rows_to_ep[static_cast<std::size_t>(ep_rank)];
  std::int64_t count = 0;
  for (std::int64_t t = 0; t < tokens; ++t)
    for (std::int64_t e = ep_rank * local(); e < (ep_rank + 1) * local(); ++e)
      count += is_chosen(from, t, e) ? 1 : 0;
  return count;
}

std::int64_t ExpertCalls::tokens_to(int from, int to) const {
  if (!tokens_to_ep.empty()) return tokens_to_ep[static_cast<std::size_t>(to / etp)];
  std::int64_t count = 0;
  for (std::int64_t t = 0; t < tokens; ++t) {
    bool is_sent = false;
    for (std::int64_t e = to / etp * local(); e < (to / etp + 1) * local(); ++e)
      is_sent = is_sent || is_chosen(from, t, e);
    count += is_sent ? 1 : 0;
  }
  return count;
}

std::int64_t ExpertCalls::rows_of_etp(int etp_rank) const {
  std::int64_t count = 0;
  for (int j = 0; j < ep; ++j) count += rows(j * etp + etp_rank, place / etp);
  return count;
}

void ExpertCalls::gather(const char* site, std::int64_t elements, Calls& calls) const {
  if (ep * etp == 1) return;
  calls.push_back({.site = site, .operation = Operation::all_gather, .elements = elements, .group = "tp-ep"});
  if (site == kCounts || site == kMap) calls.back().dtype = sim::DType::i32;
}

void ExpertCalls::scatter(const char* site, std::int64_t elements, Calls& calls) const {
  if (ep * etp > 1)
    calls.push_back(
        {.site = site, .operation = Operation::reduce_scatter, .elements = elements, .group = "tp-ep"});
}

/// The uneven all_to_all over ep, or for flex over tp-ep, of rows of `width` elements.
void ExpertCalls::exchange(const char* site, std::int64_t width, bool is_returned, Calls& calls) const {
  const bool is_flex = type == TokenDispatcherType::flex;
  const int size = is_flex ? ep * etp : ep;
  if (size == 1) return;
  ExpectedCall call{.site = site,
                    .operation = Operation::all_to_all_uneven,
                    .elements = 0,
                    .group = is_flex ? "tp-ep" : "ep"};
  if (site == kMap) call.dtype = sim::DType::i32;
  for (int other = 0; other < size; ++other) {
    const int peer = is_flex ? other : other * etp + place % etp;
    std::int64_t sent = 0;
    if (is_flex)
      sent = is_returned ? tokens_to(peer, place) : tokens_to(place, peer);
    else
      sent = is_returned ? rows(peer, place / etp) : rows(place, other);
    call.elements_to.push_back(width * sent);
    call.elements += call.elements_to.back();
  }
  calls.push_back(std::move(call));
}

/// One call where all ranks of etp have equally many rows; otherwise one for each rank that has rows.
void ExpertCalls::over_etp(const char* site, std::int64_t width, Operation equal, Operation uneven,
                           Calls& calls) const {
  if (etp == 1) return;
  std::vector<std::int64_t> rows_of;
  for (int i = 0; i < etp; ++i) rows_of.push_back(rows_of_etp(i));
  if (std::equal(rows_of.begin() + 1, rows_of.end(), rows_of.begin())) {
    calls.push_back({.site = site, .operation = equal, .elements = rows_of.front() * width, .group = "etp"});
    return;
  }
  for (int i = 0; i < etp; ++i) {
    const std::int64_t elements = rows_of[static_cast<std::size_t>(i)] * width;
    if (elements == 0) continue;
    calls.push_back(
        {.site = site, .operation = uneven, .elements = elements, .group = "etp", .root_or_peer = i});
  }
}
void ExpertCalls::gather_etp(const char* site, std::int64_t width, Calls& calls) const {
  over_etp(site, width, Operation::all_gather, Operation::broadcast, calls);
}
void ExpertCalls::reduce_etp(const char* site, std::int64_t width, Calls& calls) const {
  over_etp(site, width, Operation::reduce_scatter, Operation::reduce, calls);
}

void ExpertCalls::forward(Calls& calls) const {
  switch (type) {
    case TokenDispatcherType::allgather:
      gather(kMap, tokens * experts, calls);
      gather(kDispatchProbs, tokens * experts, calls);
      gather(kDispatch, tokens * hidden, calls);
      return scatter(kCombine, tokens * hidden, calls);
    case TokenDispatcherType::alltoall:
      if (!is_padded) gather(kCounts, experts, calls);
      exchange(kDispatch, hidden, false, calls);
      exchange(kDispatchProbs, 1, false, calls);
      gather_etp(kDispatch, hidden, calls);
      gather_etp(kDispatchProbs, 1, calls);
      reduce_etp(kCombine, hidden, calls);
      return exchange(kCombine, hidden, true, calls);
    case TokenDispatcherType::flex:
      gather(kCounts, std::int64_t{ep} * etp, calls);
      exchange(kDispatch, hidden, false, calls);
      exchange(kDispatchProbs, local(), false, calls);
      exchange(kMap, local(), false, calls);
      return exchange(kCombine, hidden, true, calls);
  }
}

void ExpertCalls::backward(Calls& calls) const {
  switch (type) {
    case TokenDispatcherType::allgather:
      gather(kCombineBackward, tokens * hidden, calls);
      scatter(kDispatchBackward, tokens * hidden, calls);
      return scatter(kProbsBackward, tokens * experts, calls);
    case TokenDispatcherType::alltoall:
      exchange(kCombineBackward, hidden, false, calls);
      gather_etp(kCombineBackward, hidden, calls);
      reduce_etp(kProbsBackward, 1, calls);
      reduce_etp(kDispatchBackward, hidden, calls);
      exchange(kProbsBackward, 1, true, calls);
      return exchange(kDispatchBackward, hidden, true, calls);
    case TokenDispatcherType::flex:
      exchange(kCombineBackward, hidden, false, calls);
      exchange(kDispatchBackward, hidden, true, calls);
      return exchange(kProbsBackward, local(), true, calls);
  }
}

}  // namespace verify
