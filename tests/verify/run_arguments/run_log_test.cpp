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

/// A launcher breaks a line anywhere, and writes its prefix before the rest, too.
TEST(RunLog, ALineThatIsBrokenIsJoined) {
  const std::string whole = line("micro_batch_size", "2");
  const std::string list = line("moe_layer_freq", "[0, 1, 1]");
  for (const std::string prefix : {"", "0: ", "[rank0]:"}) {
    for (std::size_t at = 3; at + 2 < whole.size(); ++at) {
      const RunArguments run = read(prefix + kBegin + prefix + whole.substr(0, at) + "\n" + prefix +
                                    whole.substr(at) + prefix + line("seq_length", "64") + prefix + kEnd);
      EXPECT_EQ(text_of(run), "micro-batch-size=2 seq-length=64") << prefix << at;
      EXPECT_TRUE(run.notes.empty());
    }
    for (std::size_t at = 3; at + 2 < list.size(); ++at) {
      const RunArguments run = read(prefix + kBegin + prefix + line("seq_length", "64") + prefix +
                                    list.substr(0, at) + "\n" + prefix + list.substr(at) + prefix + kEnd);
      EXPECT_EQ(text_of(run), "seq-length=64 moe-layer-freq=0=1=1") << prefix << at;
    }
  }
  EXPECT_EQ(text_of(read("0: " + kBegin + "0:   micro_batch_size ....\n1: a warning\n0: ............\n" +
                         "0: ................ 2\n0: " + kEnd)),
            "micro-batch-size=2");
  // Dots that go on need not be as many as in other lines.
  EXPECT_EQ(text_of(read("0: " + kBegin + "0:   swiglu ....\n0: .... True\n0: " + kEnd)), "swiglu=True");
  EXPECT_EQ(
      text_of(read("0: " + kBegin + "0: " + line("bf16", "True") + "0:   swiglu ....\n0:  True\n0: " + kEnd)),
      "bf16=True");
}

TEST(RunLog, AValueMayBeEmpty) {
  const std::string empty = line("wandb_project", "");
  for (const std::string& text : {empty, empty.substr(0, empty.size() - 2) + "\n"}) {
    const RunArguments run = read(kBegin + line("seq_length", "64") + text + line("bf16", "True") + kEnd);
    EXPECT_EQ(test::text_of(run.given.front()) + test::text_of(run.given.back()), "seq-length=64bf16=True");
    EXPECT_TRUE(run.notes.empty());
  }
  // However many lines follow a list that has no end, it is no larger than some of them.
  std::string many = kBegin + line("moe_layer_freq", "[0,");
  for (int i = 0; i < 100'000; ++i) many += "1,\n";
  EXPECT_LT(read(many + kEnd).given.front().values.front().size(), 200U);
}

TEST(RunLog, PartsThatAreNotJoinedAreNamed) {
  const RunArguments run =
      read("0: " + kBegin + "0:   micro_batch_size .....\n0: " + line("seq_length", "64") +
           "0: ......................... 2\n0:   another line\n0: " + kEnd);
  EXPECT_EQ(text_of(run), "seq-length=64");
  ASSERT_EQ(run.notes.size(), 1U);
  EXPECT_EQ(
      run.notes[0],
      "parts of lines, whose other parts are not found, are not read: 'micro_batch_size .....' in line 2, "
      "'......................... 2' in line 4");
}

TEST(RunLog, ThePaddedVocabularyBehindTheListIsAnArgument) {
  const std::string list = "0: " + kBegin + "0: " + line("vocab_size", "50257") + "0: " + kEnd;
  const std::string padded = " > padded vocab (size: 50257) with 47 dummy tokens (new size: 50304)\n";
  for (const std::string prefix : {"", "0:", "2026-11-22T12:00:01 | "})
    EXPECT_EQ(text_of(read(list + "x\n" + prefix + padded)), "vocab-size=50257 padded-vocab-size=50304");
  EXPECT_EQ(text_of(read(padded + list)), "vocab-size=50257");
  EXPECT_EQ(text_of(read(list + " > padded vocab (size: 50257) with some dummy tokens\n")),
            "vocab-size=50257");
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
