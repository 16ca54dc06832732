#pragma once

/// The calls of a dispatcher of experts, in closed form. Their sizes depend on how many tokens each rank
/// sends to each expert.
///
/// Shapes  n = etp ep ranks of tp-ep. Ranks of etp are adjacent in tp-ep. H features, T tokens of each rank,
///         E experts, E/ep of them local.
/// Calls   each function appends the calls of one pass of one rank to a list; a group of one rank makes none.
/// Source  Megatron-LM, moe/token_dispatcher.py.

#include <functional>

#include "sim/experts/token_dispatcher.h"
#include "verify/cases/expected_call.h"

namespace verify {

struct ExpertCalls {
  sim::TokenDispatcherType type = sim::TokenDispatcherType::allgather;
  int ep = 1;
  int etp = 1;
  int place = 0;  // of this rank in tp-ep
  std::int64_t tokens = 0;
  std::int64_t hidden = 0;
  std::int64_t experts = 0;
  bool is_padded = false;  // all experts take a capacity of every rank, so that no counts are exchanged
  /// Whether token t of the rank at a place of tp-ep goes to expert e.
  std::function<bool(int place, std::int64_t token, std::int64_t expert)> is_chosen = nullptr;
  /// Where all ranks choose alike, is_chosen may be null, and these say what each of them sends to each ep
  /// rank: rows for its experts, and tokens that chose one of them.
  std::vector<std::int64_t> rows_to_ep = {};
  std::vector<std::int64_t> tokens_to_ep = {};

  void forward(std::vector<ExpectedCall>& calls) const;
  void backward(std::vector<ExpectedCall>& calls) const;

 private:
  using Calls = std::vector<ExpectedCall>;

  std::int64_t local() const { return experts / ep; }
  /// The number of rows that one place of tp-ep sends to the experts of an ep rank.
  std::int64_t rows(int from, int ep_rank) const;
  /// The number of tokens that one place of tp-ep sends to another one, each once.
  std::int64_t tokens_to(int from, int to) const;
  /// The number of rows that this ep rank receives through one of its etp ranks.
  std::int64_t rows_of_etp(int etp_rank) const;

  void gather(const char* site, std::int64_t elements, Calls& calls) const;
  void scatter(const char* site, std::int64_t elements, Calls& calls) const;
  void exchange(const char* site, std::int64_t width, bool is_returned, Calls& calls) const;
  void gather_etp(const char* site, std::int64_t width, Calls& calls) const;
  void reduce_etp(const char* site, std::int64_t width, Calls& calls) const;
  void over_etp(const char* site, std::int64_t width, sim::Operation equal, sim::Operation uneven,
                Calls& calls) const;
};

}  // namespace verify
