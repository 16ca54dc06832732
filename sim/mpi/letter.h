#pragma once

/// A letter is the message that one process sends to another in a call. It tells which call of which group
/// the process makes and the values on which the members have to agree, and it carries the data for the
/// receiver.
///
/// Calls   in every collective each member of the group sends a letter to each other member, with or without
///         data. So each member can check that all make the same call, and the call completes when all
///         members have made it, as on virtual ranks. A send and its recv send each other one letter. When a
///         program is over, the process sends a letter of kind `ended` to all others.
/// Exact   decoding an encoded letter gives the same letter.

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/byte_order.h"
#include "sim/comm/call.h"

namespace sim {

enum class LetterKind : std::uint8_t { collective, send, recv, ended };

/// The key under which a mailbox finds a letter.
struct LetterKey {
  int from = 0;           // global rank
  std::uint32_t run = 0;  // number of the program among those that run one after the other
  std::string group;      // such as "tp[3]"
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
  std::int64_t line = 0;
  Bytes payload;
};

/// Returns the letter of a rank's own call, without data.
Letter letter_of(const Call& call, const ProcessGroup& group, int from, std::uint32_t run);

Bytes encoded_letter(const Letter& letter);
Letter decoded_letter(const Bytes& bytes, int from);

}  // namespace sim
