#pragma once

/// What one process tells another in a call: which call of which group it makes, what has to agree, and its
/// data for the other.
///
/// Calls   every member of a group sends one to every other member in every collective, with or without data:
///         so that each sees whether all make the same call, and a call is over when all have come to it, as
///         on virtual ranks. A send and its recv send each other one. `ended` goes to all when a program is
///         over.
/// Exact   what is decoded was encoded.

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/comm/call.h"
#include "sim/meeting/frame.h"

namespace sim {

enum class LetterKind : std::uint8_t { collective, send, recv, ended };

/// What a letter answers to.
struct LetterKey {
  int from = 0;           // global rank
  std::uint32_t run = 0;  // number of the program, among those that run one after the other
  std::string group;      // "tp[3]"
  LetterKind kind = LetterKind::collective;
  std::int64_t sequence = 0;
  auto operator<=>(const LetterKey&) const = default;
};

struct Letter {
  LetterKey key;
  int to = 0;  // global rank
  Operation operation = Operation::barrier;
  DType dtype = DType::f64;
  ReduceOp reduce_op = ReduceOp::sum;
  int root = -1;
  int color = 0, split_key = 0;
  std::int64_t count = 0;
  std::string name;          // new_group
  std::vector<int> members;  // new_group
  std::string site, file;
  int line = 0;
  Bytes payload;
};

/// A rank's own call, without data.
Letter letter_of(const Call& call, const ProcessGroup& group, int from, std::uint32_t run);

Bytes encoded_letter(const Letter& letter);
Letter decoded_letter(const Bytes& bytes, int from);

}  // namespace sim
