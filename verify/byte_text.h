#pragma once

/// "0 B", "9999 B", "12.30 kB", "145.60 GB": bytes for eyes, in powers of a thousand. Exact below ten thousand.

#include <cstdint>
#include <string>

namespace verify {

std::string byte_text(std::int64_t bytes);

}  // namespace verify
