#pragma once

/// Something that Megatron accepts, and that a careful reader should know of: a stable name and a sentence.

#include <string>

namespace sim {

struct Warning {
  std::string name;
  std::string message;
};

}  // namespace sim
