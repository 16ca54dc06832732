#pragma once

/// What stands at the path of an input file.
///
/// Exact   Nothing is opened: opening a named pipe or a device may wait for ever.

#include <string>

namespace verify {

/// Returns why a path cannot be read as a file ("it is a folder, not a file"); "" where it is a plain file.
std::string what_is_no_plain_file(const std::string& path);

}  // namespace verify
