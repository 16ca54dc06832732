#pragma once

/// What the tests of the command run have in common: programs in Python that need no more than the standard
/// library.

#include <gtest/gtest.h>
#include <string>

#include "tests/support/run.h"

namespace test {

/// What a program begins with: a call of a group at a line of the program.
inline constexpr const char* kGuestBegin = R"(
import os, sys, shardproof
link, rank = shardproof.link(), int(os.environ["RANK"])
def call(operation, line, **more):
    return link.ask({"do": "call", "operation": operation, "site": ["main", "train.py", line], **more})
)";

/// What publishes elements of a value "weight".
inline constexpr const char* kGuestPublishes = R"(
import array
def publish(kind, step, values, name='weight'):
    data = array.array('d', values)
    at = link.memory.take(8 * len(data))
    link.memory.map[at:at + 8 * len(data)] = data.tobytes()
    whole = [len(data)]
    place = {'kind': kind, 'step': step, 'whole': whole, 'offset': [0], 'shape': whole, 'begin': 0}
    link.ask({'do': 'publish', 'name': name, 'tensor': ['f64', at, len(data)], 'place': place})
)";

/// Runs a program that begins so.
inline RunResult run_of(const std::string& program, const std::string& options = "--ranks 2") {
  const TemporaryFile file("train.py", kGuestBegin + program);
  return run("run " + options + " -- python3 " + file.path());
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// A test that needs an interpreter.
class WithPython : public testing::Test {
 protected:
  void SetUp() override {
    if (run_process("python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))'").exit_code != 0)
      GTEST_SKIP() << "there is no python3 of 3.9 or later";
  }
};

}  // namespace test
