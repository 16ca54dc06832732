// Programs in Python that need no more than the standard library, run as ranks. The programs over torch are those
// of tests/programs.

#include <nlohmann/json.hpp>
#include <sys/resource.h>

#include "tests/verify/run/guest_test.h"

namespace {

using test::has;
using test::run_of;

class RunCommand : public test::WithPython {};

TEST_F(RunCommand, AProgramWhoseRanksAgreeIsVerified) {
  const test::RunResult run = run_of("call('barrier', 7)\nprint('hello')\n");
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_TRUE(has(run.out, "verified: 2 ranks made 2 calls")) << run.out;
  EXPECT_TRUE(has(run.out, "0| hello\n")) << run.out;
  EXPECT_TRUE(has(run.out, "1| hello\n")) << run.out;
}

TEST_F(RunCommand, AnotherCallOnOneRankIsNamedWithBothLines) {
  const test::RunResult run = run_of(R"(
if rank == 0:
    call('all_reduce', 7, output=['f32', link.memory.take(16), 4])
call('barrier', 9)
)");
  EXPECT_EQ(run.exit_code, 3) << run.out << run.err;
  EXPECT_TRUE(has(run.out, "collective_type_mismatch")) << run.out;
  EXPECT_TRUE(has(run.out, "'main' (train.py:7)")) << run.out;
  EXPECT_TRUE(has(run.out, "'main' (train.py:9)")) << run.out;
}

TEST_F(RunCommand, ARankThatRaisesIsNamedWithItsLine) {
  const test::RunResult run = run_of("if rank == 1:\n    raise ValueError('3 heads')\ncall('barrier', 9)\n");
  EXPECT_EQ(run.exit_code, 3) << run.out << run.err;
  EXPECT_TRUE(has(run.out, "guest_raised: rank 1: its program: ValueError: 3 heads")) << run.out;
  EXPECT_TRUE(has(run.err, "1| ValueError: 3 heads")) << run.err;
}

TEST_F(RunCommand, ARankThatIsKilledIsNamed) {
  const test::RunResult run =
      run_of("import signal\nif rank == 1:\n    os.kill(os.getpid(), signal.SIGKILL)\ncall('barrier', 9)\n",
             "--ranks 2 --format json");
  EXPECT_EQ(run.exit_code, 3) << run.out << run.err;
  const auto document = nlohmann::json::parse(run.out);
  EXPECT_EQ(document["findings"][0]["code"], "guest_gone");
  EXPECT_EQ(document["ended"][1], "-9");
}

TEST_F(RunCommand, WhatAProgramLeavesForItsEndIsRun) {
  const test::RunResult run = run_of("import atexit\natexit.register(lambda: call('barrier', 9))\n");
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_TRUE(has(run.out, "2 ranks made 2 calls")) << run.out;
}

TEST_F(RunCommand, ManyCallsInFlightAreServed) {
  const test::RunResult run = run_of(R"(
started = [link.write({"do": "call", "operation": "barrier", "site": ["main", "train.py", 5], "waits": False})
           for _ in range(2000)]
for number in started:
    waited = link.write({"do": "wait", "call": number})
    link.answer(number)
    link.answer(waited)
)");
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
}

TEST_F(RunCommand, AnExitCodeOfOneRankIsNoEnd) {
  const test::RunResult run = run_of("if rank == 1:\n    sys.exit(7)\n");
  EXPECT_EQ(run.exit_code, 3) << run.out << run.err;
  EXPECT_TRUE(has(run.out, "exit code 7")) << run.out;
}

TEST_F(RunCommand, APlantedFaultIsMetInTheProgram) {
  const test::RunResult run = run_of("call('barrier', 7)\n", "--ranks 2 --plant main:skip@rank=1");
  EXPECT_EQ(run.exit_code, 3) << run.out << run.err;
  EXPECT_TRUE(has(run.out, "rank 0")) << run.out;
}

TEST_F(RunCommand, ACallIsMadeEarly) {
  // Both ranks make the second call first, whose result then lacks that of the other one.
  const test::RunResult run =
      run_of("call('barrier', 7)\ncall('barrier', 9)\n", "--ranks 2 --plant main:early@call=1");
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_TRUE(has(run.out, "2 ranks made 4 calls")) << run.out;
}

TEST_F(RunCommand, ADrawnScheduleHasTheSameResult) {
  const std::string program = R"(
at = link.memory.take(8)
link.memory.map[at:at + 8] = (rank + 1).to_bytes(8, 'little')
call('all_reduce', 7, output=['i64', at, 1])
print(int.from_bytes(link.memory.map[at:at + 8], 'little'))
link.ask({'do': 'publish', 'name': 'sum', 'tensor': ['i64', at, 1]})
)";
  const auto hash = [&](const std::string& options) {
    const test::RunResult run = run_of(program, options);
    EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
    EXPECT_TRUE(has(run.err, "| 6\n")) << run.err;
    return nlohmann::json::parse(run.out)["run_hash"].get<std::string>();
  };
  EXPECT_EQ(hash("--ranks 3 --format json"),
            hash("--ranks 3 --format json --schedule uniform --schedule-seed 5"));
}

/// A program that makes groups of 4 ranks with Megatron's descriptions, if it has as many.
test::RunResult run_with_groups(const std::string& pipelines, const std::string& options = "--ranks 4") {
  return run_of(std::string(test::kGuestPublishes) + R"(
for name, groups in (("TENSOR_MODEL_PARALLEL_GROUP", ([0, 1], [2, 3])), ("PIPELINE_MODEL_PARALLEL_GROUP", )" +
                    pipelines + R"(), ("my own", ([0, 3],))):
    for members in groups if os.environ["WORLD_SIZE"] == "4" else ():
        link.ask({"do": "new_group", "name": name, "members": members, "site": ["main", "train.py", 4]})
publish('gradient', 0, [3])
)",
                options);
}

TEST_F(RunCommand, GroupsOfMegatronAreHeldAgainstTheLayout) {
  const test::RunResult run = run_with_groups("([0, 2], [1, 3])");
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_TRUE(has(run.out, "layout  4 ranks, tp 2, cp 1, dp 1, pp 2")) << run.out;
  EXPECT_TRUE(has(run.out, "4 of 4 groups have the members that Megatron gives them")) << run.out;
}

TEST_F(RunCommand, AGroupThatIsNotMegatronsIsAWarning) {
  const test::RunResult run = run_with_groups("([0, 3], [1, 2])");
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_TRUE(has(run.out, "2 of 4 groups have the members")) << run.out;
  EXPECT_TRUE(has(run.out, "warning [0,3] of 'PIPELINE_MODEL_PARALLEL_GROUP' is no group")) << run.out;
}

TEST_F(RunCommand, AComparisonWarnsOfGroupsThatAreNotMegatrons) {
  const test::RunResult right = run_with_groups("([0, 2], [1, 3])", "--ranks 4 --against ' '");
  EXPECT_EQ(right.exit_code, 0) << right.out << right.err;
  EXPECT_FALSE(has(right.out, "groups")) << right.out;
  const test::RunResult wrong = run_with_groups("([0, 3], [1, 2])", "--ranks 4 --against ' '");
  EXPECT_EQ(wrong.exit_code, 0) << wrong.out << wrong.err;
  EXPECT_TRUE(has(wrong.out,
                  "the program: its groups are not those of this layout\n"
                  "warning [0,3] of 'PIPELINE_MODEL_PARALLEL_GROUP' is no group"))
      << wrong.out;
  const test::RunResult json = run_with_groups("([0, 3], [1, 2])", "--ranks 4 --against ' ' --format json");
  EXPECT_EQ(nlohmann::json::parse(json.out)["layouts"][0]["groups"].size(), 2U) << json.out;
}

TEST_F(RunCommand, WhatTheFirstRankTellsOfItsArgumentsIsJudged) {
  const test::RunResult run = run_of(R"(
call('barrier', 5)
link.ask({"do": "tell", "text": '{"shardproof_run": 2}' if rank == 0 else ''})
)");
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_TRUE(has(run.out, "calls   not compared with a closed form: ")) << run.out;
}

TEST_F(RunCommand, AGroupMayHaveAnyName) {
  const test::RunResult run = run_of(R"(
for name in ("tp", "dp", "my tp", "embd"):
    made = link.ask({"do": "new_group", "name": name, "members": [0, 1], "site": ["main", "train.py", 4]})
    call('barrier', 5, group=made["group"])
)");
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_TRUE(has(run.out, "2 ranks made 16 calls")) << run.out;
}

TEST_F(RunCommand, AProgramWithoutMegatronHasNoLayout) {
  const test::RunResult run = run_of("call('barrier', 7)\n");
  EXPECT_FALSE(has(run.out, "layout")) << run.out;
}

TEST(RunRequest, WhatIsMissingIsSaid) {
  EXPECT_TRUE(has(test::run("run --ranks 2").err, "run_program_missing"));
  EXPECT_TRUE(has(test::run("run --ranks 2 -- python3 no_such.py").err, "there is no file no_such.py"));
  EXPECT_TRUE(has(test::run("run --ranks 2 -- python3 -m").err, "run_program_missing"));
  EXPECT_TRUE(has(test::run("run --ranks 2 -- ls").err, "run_program_missing"));
  EXPECT_TRUE(has(test::run("run --ranks 2 -- /no/python3 -c pass").err, "run_program_not_started"));
  EXPECT_TRUE(has(test::run("run -- python3 -c pass").err, "missing_option"));
}

TEST(RunRequest, TooFewDescriptorsAreSaid) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few = {.rlim_cur = 40, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const test::RunResult run = test::run("run --ranks 64 -- python3 -c pass");
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(has(run.err, "guest_limit")) << run.err;
}

}  // namespace
