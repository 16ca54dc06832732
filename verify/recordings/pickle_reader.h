#pragma once

/// Reads a pickle without executing it: only opcodes that make numbers, texts, tuples, lists and dicts. These
/// are the 21 of protocol 2 that c10's pickler writes for a flight-recorder dump, and those that Python's
/// pickler writes in their place, in protocols 2 to 5:
///
///   PROTO STOP MARK EMPTY_DICT EMPTY_LIST SETITEMS APPENDS TUPLE2 BINUNICODE BINPUT LONG_BINPUT BINGET
///   LONG_BINGET BININT BININT1 BININT2 LONG1 BINFLOAT NONE NEWTRUE NEWFALSE, and of Python APPEND SETITEM
///   EMPTY_TUPLE TUPLE1 TUPLE3 TUPLE FRAME MEMOIZE SHORT_BINUNICODE
///
/// Every other opcode is refused by its name and offset, before anything that follows it is read, among them
/// those that import a name or call a function (GLOBAL, REDUCE, BUILD, ...). A dump that Python wrote again
/// with protocol 0 is refused at its DICT, at offset 1, and with protocol 1 at its first INT or LONG. A tuple
/// becomes a list.
///
/// Exact   A file that ends too early is read as far as it goes: what stands above each open MARK is added to
///         the container below it, as if the pickler had closed it there. An element that is the only one of
///         its list or dict has no MARK, and is lost if the file ends before its APPEND or SETITEM.
/// Errors  dump_opcode: an opcode that is not in the list, or one that does not fit what was read before;
///         dump_limit: more than kMostMarks open marks, a memo out of order, a text of more than
///         kMostTextBytes, a number of more than 64 bits, or too many values.

#include <cstddef>
#include <string>
#include <string_view>

#include "verify/recordings/value_tree.h"

namespace verify {

inline constexpr std::size_t kMostMarks = 64;
inline constexpr std::size_t kMostTextBytes = std::size_t{16} << 20U;

/// What was read of a file.
struct ParsedFile {
  Value value;                // of the whole file
  bool is_truncated = false;  // it ended before its value was complete
};

/// Whether bytes begin as a pickle does: with PROTO, or, in protocols 0 and 1, with a dict.
bool begins_as_pickle(std::string_view bytes);

/// Returns the value of a pickle, whose texts are views into `bytes`. `file` is named in refusals.
ParsedFile parse_pickle(std::string_view bytes, const std::string& file, ValueTree& tree);

}  // namespace verify
