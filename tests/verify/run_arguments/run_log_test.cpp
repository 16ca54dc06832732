// Proves that the list of arguments in a log is read behind any prefix, and that a list which is cut is
// refused.

#include "verify/run_arguments/run_log.h"

#include <gtest/gtest.h>
#include <sstream>
#include <string>

#include "tests/verify/run_arguments/read_arguments.h"

namespace {

using test::at;
using test::text_of;

using verify::RunArguments;

const std::string kBegin = "------------------------ arguments ------------------------\n";
const std::string kEnd = "-------------------- end of arguments ---------------------\n";

/// A line as Megatron prints it.
std::string line(const std::string& name, const std::string& value) {
  const std::size_t dots = name.size() < 48 ? 48 - name.size() : 0;
  return "  " + name + " " + std::string(dots, '.') + " " + value + "\n";
}

RunArguments read(const std::string& text) {
  std::istringstream log(text);
  return verify::read_run_log(log);
}

std::string code_of(const std::string& text) {
  return test::refusal_of([&] { read(text); });
}

TEST(RunLog, NamesMayHaveCapitals) {
  EXPECT_EQ(text_of(read(kBegin + line("DDP_impl", "local") + line("freeze_LM", "True") + kEnd)),
            "DDP-impl=local freeze-LM=True");
}

TEST(RunLog, ReadsTheListOfArguments) {
  const RunArguments run =
      read("using world size: 16\n" + kBegin + line("add_bias_linear", "False") +
           line("moe_layer_freq", "[0, 1, 1]") + line("data_path", "['a', 'b c']") +
           line("inference_dynamic_batching_prefix_caching_coordinator_policy", "longest_prefix") +
           line("world_size", "16") + kEnd + "> setting random seeds\n");
  EXPECT_EQ(text_of(run),
            "add-bias-linear=False moe-layer-freq=0=1=1 data-path=a=b c "
            "inference-dynamic-batching-prefix-caching-coordinator-policy=longest_prefix world-size=16");
  EXPECT_EQ(run.world_size, 16);
  EXPECT_EQ(run.world_size_source, "world_size of the log, line 7");
}

TEST(RunLog, DropsPrefixesAndOtherLines) {
  for (const std::string prefix :
       {"0: ", "[rank0]: ", "2026-11-22T12:00:01 node-7 | ", "\x1b[32m0:\x1b[0m "}) {
    const RunArguments run =
        read(prefix + kBegin + prefix + line("num_layers", "12") + "3: WARNING: something else\n" + prefix +
             line("world_size", "8") + prefix + kEnd);
    EXPECT_EQ(text_of(run), "num-layers=12 world-size=8") << prefix;
  }
}

TEST(RunLog, TheLastCompleteListCounts) {
  const std::string first = kBegin + line("world_size", "8") + kEnd;
  const std::string second = kBegin + line("world_size", "4") + kEnd;
  const RunArguments run = read(first + second);
  EXPECT_EQ(run.world_size, 4);
  EXPECT_EQ(run.notes.size(), 1U);
  const RunArguments cut = read(first + kBegin + line("num_layers", "12"));
  EXPECT_EQ(cut.world_size, 8);
  ASSERT_EQ(cut.notes.size(), 1U);
  EXPECT_EQ(cut.notes[0], "another list begins in line 4 and does not end; it is not read");
}

TEST(RunLog, RefusesAListThatIsCut) {
  EXPECT_EQ(code_of("x\n" + kBegin + line("num_layers", "12")), at("run_log_cut", "line 2"));
  EXPECT_EQ(code_of(line("num_layers", "12") + kEnd), at("run_log_cut", "line 2"));
  EXPECT_EQ(code_of(kBegin + kEnd), at("run_without_arguments", "--from"));
  std::string many = kBegin;
  for (int i = 0; i < 10'001; ++i) many += line("argument_" + std::to_string(i), "1");
  EXPECT_EQ(code_of(many + kEnd), at("run_file_size", "line 10002"));
}

}  // namespace
