// Proves that a machine is read from its file, and that all that is wrong with one is refused at once.

#include "verify/sweep/machine.h"

#include <cmath>
#include <gtest/gtest.h>

#include "sim/base/refusals.h"
#include "tests/support/run.h"

namespace {

using namespace verify;

constexpr const char* kWhole =
    "# Source: a test\n"
    "multiply-adds-per-second = 4e12   # of one GPU\n"
    "bytes-per-second-inside-node = 2e9\r\n"
    "\n"
    "bytes-per-second-across-nodes=1000000\n"
    "latency-seconds = 0\n";

Machine machine_of(const std::string& text) {
  const test::TemporaryFile file("one.ini", text);
  return read_machine(file.path());
}

/// Returns the codes of all refusals, in order.
std::vector<std::string> codes_of(const std::string& text) {
  try {
    machine_of(text);
  } catch (const sim::Error& error) {
    std::vector<std::string> codes = {error.refusal().code};
    for (const sim::Refusal& refusal : sim::further_refusals(error)) codes.push_back(refusal.code);
    return codes;
  }
  return {};
}

TEST(Machine, FourNumbersAndASourceAreRead) {
  const Machine machine = machine_of(kWhole);
  EXPECT_EQ(machine.source, "a test");
  EXPECT_EQ(machine.multiply_adds_per_second, 4e12);
  EXPECT_EQ(machine.bytes_per_second_inside_node, 2e9);
  EXPECT_EQ(machine.bytes_per_second_across_nodes, 1e6);
  EXPECT_EQ(machine.latency_seconds, 0);
}

TEST(Machine, AMeasuredFactorMakesItSlower) {
  const Machine plain = machine_of(kWhole);
  const std::string measured =
      "latency-seconds = 0.25\nmeasured-factor = 2\nmeasured-steps = 9\nmeasured-error = 0.25\n";
  std::string text = kWhole;
  text.resize(text.find("latency-seconds"));
  const Machine slower = machine_of(text + measured);
  EXPECT_EQ(slower.multiply_adds_per_second, plain.multiply_adds_per_second / 2);
  EXPECT_EQ(slower.bytes_per_second_inside_node, plain.bytes_per_second_inside_node / 2);
  EXPECT_EQ(slower.latency_seconds, 0.5);
  EXPECT_EQ(words_of_error(slower), "9 measured steps like this were off by 25 % in the median");
  EXPECT_EQ(words_of_error(plain), "no measured step is known of this machine");
  EXPECT_EQ(codes_of(std::string(kWhole) + "measured-factor = 2\n"),
            std::vector<std::string>(2, "machine_incomplete"));
}

TEST(Machine, TheReadyFileHasTheFiguresOfTheDataSheets) {
  const Machine machine = read_machine("scenarios/machines/h100-node.ini");
  EXPECT_EQ(machine.name, "h100-node");
  EXPECT_NE(machine.source.find("NVIDIA"), std::string::npos);
  const auto stated = [&](double rate) { return std::llround(rate * machine.measured_factor); };
  EXPECT_EQ(stated(2 * machine.multiply_adds_per_second), 989'400'000'000'000);
  EXPECT_EQ(stated(2 * machine.bytes_per_second_inside_node), 900'000'000'000);
  EXPECT_EQ(stated(8 * machine.bytes_per_second_across_nodes), 400'000'000'000);
}

TEST(Machine, AllThatIsWrongIsRefusedAtOnce) {
  EXPECT_EQ(codes_of(kWhole), std::vector<std::string>());
  EXPECT_EQ(codes_of(""), std::vector<std::string>(4, "machine_incomplete"));
  EXPECT_EQ(codes_of(std::string(kWhole) + "latency-seconds = 1\n"),
            std::vector<std::string>{"machine_syntax"});
  EXPECT_EQ(codes_of(std::string(kWhole) + "[more]\n"), std::vector<std::string>{"machine_syntax"});
  EXPECT_EQ(codes_of("multiply-adds-per-second = 0\n"
                     "bytes-per-second-inside-node = -1e9\n"
                     "bytes-per-second-across-node = 1e9\n"
                     "latency-seconds = 2\n"),
            (std::vector<std::string>{"machine_number", "machine_number", "machine_key", "machine_number",
                                      "machine_incomplete"}));
  for (const char* value : {"nan", "inf", "1e400", "fast", "", "1e9 bytes"}) {
    EXPECT_EQ(codes_of(std::string(kWhole).replace(std::string(kWhole).find("4e12"), 4, value)),
              std::vector<std::string>{"machine_number"})
        << value;
  }
}

TEST(Machine, AFolderAndNoFileAreRefused) {
  for (const char* path : {"/nowhere/h100.ini", "/tmp"}) {
    try {
      read_machine(path);
      ADD_FAILURE() << path;
    } catch (const sim::Error& error) {
      EXPECT_EQ(error.refusal().code, "machine_missing");
    }
  }
}

}  // namespace
