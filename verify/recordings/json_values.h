#pragma once

/// Reads JSON into a tree of values, at the speed that thousands of dumps need. (verify/output/json.h is for
/// documents that are small, or that are written.)
///
/// Exact   A file that ends too early is read as far as it goes: every open list and object is closed there.
///         NaN and Infinity, which Python writes, are read as null, and a whole number that does not fit into
///         64 bits as a real one.
/// Errors  dump_text: what stands there is not JSON; dump_limit: more than kMostJsonLevels open lists and
///         objects, a text of more than kMostTextBytes (pickle_reader.h), or too many values.

#include <string>
#include <string_view>

#include "verify/recordings/pickle_reader.h"
#include "verify/recordings/value_tree.h"

namespace verify {

inline constexpr std::size_t kMostJsonLevels = 64;

/// Returns the value of a JSON file, most of whose texts are views into `bytes`. `file` is named in refusals.
ParsedFile parse_json_values(std::string_view bytes, const std::string& file, ValueTree& tree);

}  // namespace verify
