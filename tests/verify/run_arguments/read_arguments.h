#pragma once

/// What the tests of the three readers say of a run and of a refusal, as text.

#include <string>

#include "sim/base/error.h"
#include "verify/run_arguments/run_arguments.h"

namespace test {

/// "num-layers=12 list=a=b bf16"
inline std::string text_of(const verify::RunArgument& argument) {
  std::string text = argument.name;
  for (const std::string& value : argument.values) text += "=" + value;
  return text;
}
inline std::string text_of(const verify::RunArguments& run) {
  std::string text;
  for (const verify::RunArgument& argument : run.given) text += (text.empty() ? "" : " ") + text_of(argument);
  return text;
}

inline std::string at(const std::string& code, const std::string& where) { return code + " at " + where; }

/// The refusal of a reader; "" where it refuses nothing.
template <typename Read>
std::string refusal_of(const Read& read) {
  try {
    read();
  } catch (const sim::Error& error) {
    return at(error.refusal().code, error.refusal().option);
  }
  return "";
}

}  // namespace test
