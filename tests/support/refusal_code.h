#pragma once

/// Returns the code with which a piece of work is refused, or "none".

#include <string>

#include "sim/base/error.h"

namespace test {

template <typename Work>
std::string refusal_code(Work&& work) {
  try {
    work();
  } catch (const sim::Error& error) {
    return error.refusal().code;
  }
  return "none";
}

}  // namespace test
