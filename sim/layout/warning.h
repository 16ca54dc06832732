#pragma once

/// A warning about sizes that Megatron accepts although they may be a mistake: a stable name and a sentence.

#include <string>

namespace sim {

struct Warning {
  std::string name;
  std::string message;
};

}  // namespace sim
