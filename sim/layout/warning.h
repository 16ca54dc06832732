#pragma once

/// Something that Megatron accepts but a careful reader should know about: a stable name and a sentence.

#include <string>

namespace sim {

struct Warning {
  std::string name;
  std::string message;
};

}  // namespace sim
