#pragma once

/// Writes values as a pickle of protocol 2, with the opcodes and in the form of PyTorch's own pickler: a text
/// is written once and then taken from the memo, and containers are not in the memo.
///
/// Calls   begin_ and end_ come in pairs. Inside of a dict, keys and values take turns; a pair has two
///         values. finish() is called once, after one value.
/// Exact   the same calls give the same bytes. Whole numbers have the shortest opcode of BININT1, BININT2,
///         BININT and LONG1 of eight bytes.
/// Source  PyTorch, torch/csrc/jit/serialization/pickler.cpp; the opcodes are those of Python's pickletools.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace verify {

class PickleWriter {
 public:
  PickleWriter();
  void begin_dict() { out_ += "}("; }
  void end_dict() { out_ += 'u'; }
  void begin_list() { out_ += "]("; }
  void end_list() { out_ += 'e'; }
  void begin_pair() {}
  void end_pair() { out_ += '\x86'; }
  void text(std::string_view text);
  void number(std::int64_t number);
  void real(double number);
  void flag(bool value) { out_ += value ? '\x88' : '\x89'; }
  void none() { out_ += 'N'; }
  /// Returns all bytes.
  std::string finish();

 private:
  void little_endian(std::uint64_t number, int bytes);

  std::string out_;
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  std::unordered_map<std::string, std::uint64_t, TextHash, std::equal_to<>> memo_;  // the number of each text
};

}  // namespace verify
