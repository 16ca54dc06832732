#pragma once

/// Rows that ranks exchange: how many each rank sends to each other, and where they lie among the rows of all
/// ranks. The case all_to_all_uneven uses it, and so do the planted programs that exchange rows wrongly.
///
/// Shapes  Rank r sends rows_between(r, q) rows to rank q, from 0 to the dimension `rows`. The whole input
///         has the rows of rank 0 first, and of each rank those for rank 0 first. The whole output has the
///         rows that rank 0 receives first, and of each rank those from rank 0 first.

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "verify/cases/case_inputs.h"

namespace verify {

inline std::int64_t rows_between(const CaseSetting& s, int from, int to) {
  return sim::KeyedRandom(s.seed).named("rows").below(
      static_cast<std::uint64_t>(from) * static_cast<std::uint64_t>(s.group_size) +
          static_cast<std::uint64_t>(to),
      static_cast<std::uint32_t>(s["rows"] + 1));
}

/// The rows that a rank sends to each rank, or receives from each.
inline std::vector<std::int64_t> rows_sent(const CaseSetting& s, int from) {
  std::vector<std::int64_t> rows;
  for (int to = 0; to < s.group_size; ++to) rows.push_back(rows_between(s, from, to));
  return rows;
}
inline std::vector<std::int64_t> rows_received(const CaseSetting& s, int to) {
  std::vector<std::int64_t> rows;
  for (int from = 0; from < s.group_size; ++from) rows.push_back(rows_between(s, from, to));
  return rows;
}

/// The rows of one rank among those of all ranks.
struct OwnRows {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t all = 0;
};
inline OwnRows own_rows_of(const CaseSetting& s, int rank,
                           std::vector<std::int64_t> (*rows_of)(const CaseSetting&, int)) {
  OwnRows own;
  for (int other = 0; other < s.group_size; ++other) {
    const std::vector<std::int64_t> rows = rows_of(s, other);
    if (other == rank) own.begin = own.all;
    own.all = std::accumulate(rows.begin(), rows.end(), own.all);
    if (other == rank) own.end = own.all;
  }
  return own;
}

/// Returns this rank's rows of a drawn whole.
inline sim::Tensor drawn_own_rows(sim::Rank& rank, const CaseSetting& s, const std::string& name,
                                  const OwnRows& own) {
  return drawn(rank, s, name, {own.all, s["hidden"]}).rows(own.begin, own.end);
}

/// Publishes this rank's rows in their places among those of all ranks, with zeros for the others.
inline void publish_own_rows(sim::Rank& rank, const CaseSetting& s, const std::string& name,
                             const sim::Tensor& rows, const OwnRows& own) {
  const sim::Tensor whole = sim::filled(rank.device, s.dtype, {own.all, s["hidden"]}, 0);
  sim::Tensor to = whole.rows(own.begin, own.end);
  sim::copy(rows, to);
  rank.publish(name, whole);
}

/// Exchanges the rows of drawn tensors forward and backward by a function, and publishes the outputs of the
/// case. `exchange` takes the rows that this rank sends, their number for each place, and the number that it
/// receives from each.
template <typename Exchange>
void run_token_exchange(sim::Rank& rank, const CaseSetting& s, const Exchange& exchange) {
  const int place = rank.groups.get("tp").rank();
  const OwnRows sent = own_rows_of(s, place, rows_sent), received = own_rows_of(s, place, rows_received);
  const sim::Tensor input = drawn_own_rows(rank, s, "input", sent);
  const sim::Tensor grad_output = drawn_own_rows(rank, s, "grad_output", received);
  const sim::Tensor output =
      exchange(input, rows_sent(s, place), rows_received(s, place), "token_exchange.forward");
  const sim::Tensor grad_input =
      exchange(grad_output, rows_received(s, place), rows_sent(s, place), "token_exchange.backward");
  publish_own_rows(rank, s, "input", input, sent);  // after the calls, which must not have changed it
  publish_own_rows(rank, s, "output", output, received);
  publish_own_rows(rank, s, "grad_output", grad_output, received);
  publish_own_rows(rank, s, "grad_input", grad_input, sent);
}

}  // namespace verify
