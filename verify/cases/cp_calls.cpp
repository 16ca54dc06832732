#include "verify/cases/cp_calls.h"

#include <fmt/format.h>

namespace verify {

namespace {

using sim::Operation;

void message(const char* site, const char* group, Operation operation, std::int64_t elements, int peer,
             std::vector<ExpectedCall>& calls) {
  calls.push_back(
      {.site = site, .operation = operation, .elements = elements, .group = group, .root_or_peer = peer});
}

void collective(const std::string& site, const char* group, Operation operation, std::int64_t elements,
                std::vector<ExpectedCall>& calls) {
  calls.push_back({.site = site, .operation = operation, .elements = elements, .group = group});
}

}  // namespace

int exchanging_ranks(sim::CpCommType kind, int cp, int inner) {
  if (kind == sim::CpCommType::a2a) return cp;
  return kind == sim::CpCommType::a2a_p2p ? inner : 1;
}

int merges_of_ring(sim::CpCommType kind, int cp, int inner) {
  const bool is_ring = kind == sim::CpCommType::p2p || kind == sim::CpCommType::a2a_p2p;
  return is_ring ? cp / exchanging_ranks(kind, cp, inner) - 1 : 0;
}

CpCalls::Ring CpCalls::ring() const {
  if (is_hierarchical()) return {"hcp-L1", cp / inner, place / inner};
  return {"cp", cp, place};
}

void CpCalls::exchange(const char* what, std::int64_t elements, std::vector<ExpectedCall>& calls) const {
  collective(fmt::format("all_to_all_attention.{}", what), is_hierarchical() ? "hcp-L0" : "cp",
             Operation::all_to_all, elements / (is_hierarchical() ? inner : cp), calls);
}

void CpCalls::ring_forward(const Ring& ring, std::vector<ExpectedCall>& calls) const {
  for (int step = 1; step < ring.size; ++step) {
    message("ring_attention.forward", ring.group, Operation::send, keys + values,
            (ring.place + 1) % ring.size, calls);
    message("ring_attention.forward", ring.group, Operation::recv, keys + values,
            (ring.place + ring.size - 1) % ring.size, calls);
  }
}

void CpCalls::ring_backward(const Ring& ring, std::vector<ExpectedCall>& calls) const {
  for (int step = 0; step < ring.size; ++step) {
    const std::int64_t times = step == 0 || step + 1 == ring.size ? 1 : 2;
    message("ring_attention.backward", ring.group, Operation::send, times * (keys + values),
            (ring.place + ring.size - 1) % ring.size, calls);
    message("ring_attention.backward", ring.group, Operation::recv, times * (keys + values),
            (ring.place + 1) % ring.size, calls);
  }
}

void CpCalls::forward(std::vector<ExpectedCall>& calls) const {
  if (cp == 1) return;
  if (kind == sim::CpCommType::all_gather) {
    collective("all_gather_attention.keys", "cp", Operation::all_gather, keys, calls);
    collective("all_gather_attention.values", "cp", Operation::all_gather, values, calls);
  }
  if (exchanges()) {
    exchange("queries", queries, calls);
    exchange("keys", keys, calls);
    exchange("values", values, calls);
  }
  if (is_ring()) ring_forward(ring(), calls);
  if (exchanges()) exchange("context", context, calls);
}

void CpCalls::backward(std::vector<ExpectedCall>& calls) const {
  if (cp == 1) return;
  if (kind == sim::CpCommType::all_gather) {
    collective("all_gather_attention.keys", "cp", Operation::all_gather, keys, calls);
    collective("all_gather_attention.values", "cp", Operation::all_gather, values, calls);
    collective("all_gather_attention.grad_keys", "cp", Operation::reduce_scatter, keys, calls);
    collective("all_gather_attention.grad_values", "cp", Operation::reduce_scatter, values, calls);
  }
  if (exchanges()) exchange("grad_context", context, calls);
  if (is_ring()) ring_backward(ring(), calls);
  if (!exchanges()) return;
  exchange("grad_queries", queries, calls);
  exchange("grad_keys", keys, calls);
  exchange("grad_values", values, calls);
}

}  // namespace verify
