#pragma once

/// Reads a number of bytes with its unit, such as "80GB" or "512 MiB".
///
/// Exact   kB, MB, GB and TB are powers of 1000, and KiB, MiB, GiB and TiB are powers of 1024; a number alone
///         is in bytes. A fraction of a byte is cut off.
/// Errors  memory_size: a text that is no such number, a unit that is none of these, a number that is not
///         between 1 byte and 2^60 bytes, or one without a unit that is less than 1 MiB, whose unit was
///         forgotten.

#include <cstdint>
#include <string>

namespace verify {

/// Returns the bytes that the text of `option` says.
std::int64_t byte_size(const std::string& option, const std::string& text);

}  // namespace verify
