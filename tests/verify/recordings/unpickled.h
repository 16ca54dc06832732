#pragma once

/// Reads the pickles of flight recorders for tests. It shares nothing with the writer or the reader of
/// verify/recordings: it is a stack machine after the comments of Python's pickletools.
///
/// Errors  std::runtime_error: an opcode that is not one of the 20 of PyTorch's dumps, with its offset, or
///         bytes that end early.

#include <nlohmann/json.hpp>
#include <string>

namespace test {

/// Returns the value. A tuple of two is an object {"pair": [first, second]}; objects keep the order of the
/// file.
nlohmann::ordered_json unpickled(const std::string& bytes);

}  // namespace test
