// How the program of a rank ends, as an interpreter would end it, and what is said of it.

#include <nlohmann/json.hpp>

#include "tests/verify/run/guest_test.h"

namespace {

using test::has;
using test::run_of;
using test::RunResult;

class RankEnd : public test::WithPython {
 protected:
  static void expect_verified(const RunResult& run) {
    EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
    EXPECT_TRUE(has(run.out, "verified: ")) << run.out;
  }
  static void expect_broken(const RunResult& run, const std::string& finding) {
    EXPECT_EQ(run.exit_code, 3) << run.out << run.err;
    EXPECT_TRUE(has(run.out, finding)) << run.out << run.err;
  }
};

/// A process that ends by itself when its calls have ended, which `link` says in its place.
constexpr const char* kSaysTheEnd = "call('barrier', 7)\nif rank == 1:\n    link.ask({'do': 'end'})\n";

TEST_F(RankEnd, AProcessThatIsKilledAfterItsCallsIsNamed) {
  const RunResult run = run_of(std::string(kSaysTheEnd) + "    os.kill(os.getpid(), 11)\n");
  expect_broken(run, "rank_exit: rank 1: its process was killed by SIGSEGV after it had ended its calls");
  EXPECT_TRUE(has(run.out, "broken: 1 finding")) << run.out;
  EXPECT_TRUE(has(run.out, "  reproduce  ")) << run.out;
}

TEST_F(RankEnd, AnExitCodeAfterItsCallsIsAFindingOfJsonToo) {
  const RunResult run =
      run_of(std::string(kSaysTheEnd) + "    import ctypes\n    ctypes.CDLL(None)._exit(5)\n",
             "--ranks 2 --format json");
  EXPECT_EQ(run.exit_code, 3) << run.out << run.err;
  const auto document = nlohmann::json::parse(run.out);
  EXPECT_EQ(document["verdict"], "broken");
  EXPECT_EQ(document["findings"][0]["code"], "rank_exit");
  EXPECT_EQ(document["findings"][0]["sentence"],
            "rank 1: its process ended with exit code 5 after it had ended its calls");
}

TEST_F(RankEnd, AForkedHelperSaysNothingForItsRank) {
  expect_verified(run_of(R"(
for how in (lambda: sys.exit(0), lambda: sys.exit(4), lambda: os._exit(0), lambda: os._exit(3)):
    helper = os.fork()
    if helper == 0:
        how()
    os.waitpid(helper, 0)
call('barrier', 9)
)"));
  const RunResult run = run_of(
      "helper = os.fork()\nif helper == 0:\n    raise ValueError('of the helper')\n"
      "os.waitpid(helper, 0)\ncall('barrier', 9)\n");
  expect_verified(run);
  EXPECT_TRUE(has(run.err, "1| ValueError: of the helper\n")) << run.err;
}

TEST_F(RankEnd, AHelperThatLivesOnDoesNotHideTheEndOfItsRank) {
  for (const char* helper : {"if rank == 1 and os.fork() == 0:\n    import time\n    time.sleep(600)\n",
                             "if rank == 1:\n    os.system('sleep 600 > /dev/null 2>&1 &')\n"})
    expect_broken(
        run_of(std::string(helper) + "if rank == 1:\n    os.kill(os.getpid(), 9)\ncall('barrier', 9)\n"),
        "it is gone after 0 requests; it was killed by SIGKILL\n");
}

TEST_F(RankEnd, WithoutACallNothingIsChecked) {
  const RunResult run = run_of("print('hello')\n");
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_TRUE(has(run.out, "ran: 2 ranks made no calls; nothing was checked\n")) << run.out;
  EXPECT_FALSE(has(run.out, "verified") || has(run.out, "proved")) << run.out;
  const RunResult as_json = run_of("", "--ranks 2 --format json");
  EXPECT_EQ(nlohmann::json::parse(as_json.out)["verdict"], "nothing checked");
}

TEST_F(RankEnd, AnExitAtOnceIsTheEndThatItsCodeSays) {
  expect_verified(run_of("call('barrier', 7)\nos._exit(0)\n"));
  expect_broken(run_of("def main():\n    os._exit(6)\nif rank == 1:\n    main()\ncall('barrier', 9)\n"),
                "guest_raised: rank 1: its program: the program has ended by os._exit(6) (");
  expect_broken(run_of("if rank == 1:\n    os._exit(0)\ncall('barrier', 9)\n"), "missing_ranks");
}

TEST_F(RankEnd, AtexitRunsAfterEveryEnd) {
  for (const char* end : {"sys.exit(3)", "raise ValueError('x')", "sys.exit(0)"}) {
    const RunResult run = run_of("import atexit\natexit.register(print, 'left')\n" + std::string(end) + "\n");
    EXPECT_TRUE(has(run.out, "0| left\n") && has(run.out, "1| left\n")) << end << run.out << run.err;
  }
}

TEST_F(RankEnd, WhatWasLeftBeforeTheRanksIsRunAsWell) {
  expect_verified(run_of(R"(
import tempfile, weakref
class Owner: pass
owner = Owner()
weakref.finalize(owner, call, 'barrier', 9)
)"));
}

TEST_F(RankEnd, TheProgramsHookShowsAnException) {
  const RunResult run = run_of(R"(
def hook(kind, error, trace):
    print('hook', kind.__name__, error, trace.tb_lineno, trace.tb_frame.f_code.co_name)
sys.excepthook = hook
raise ValueError('3 heads')
)");
  expect_broken(run, "guest_raised: ranks 0, 1: its program: ValueError: 3 heads (");
  EXPECT_TRUE(has(run.out, "1| hook ValueError 3 heads 10 <module>\n")) << run.out;
}

TEST_F(RankEnd, ATracebackBeginsInTheProgram) {
  const RunResult run = run_of("def main():\n    raise ValueError('3 heads')\nmain()\n", "--ranks 1");
  EXPECT_TRUE(has(run.err, "0| Traceback (most recent call last):\n0|   File \"")) << run.err;
  EXPECT_FALSE(has(run.err, "runpy") || has(run.err, "ends.py") || has(run.err, "start.py")) << run.err;
}

TEST_F(RankEnd, AnExceptionOfAHookIsShownWithTheOriginalOne) {
  const RunResult run =
      run_of("def hook(*_):\n    raise KeyError('hook')\nsys.excepthook = hook\nraise ValueError('first')\n",
             "--ranks 1");
  EXPECT_TRUE(has(run.err, "0| Error in sys.excepthook:\n")) << run.err;
  EXPECT_TRUE(has(run.err, "0| Original exception was:\n")) << run.err;
  EXPECT_TRUE(has(run.err, "0| ValueError: first\n")) << run.err;
}

TEST_F(RankEnd, TheTextOfAnExitAndItsLineAreTold) {
  const RunResult run =
      run_of("def main():\n    sys.exit('no data shard')\nif rank == 1:\n    main()\ncall('barrier', 9)\n");
  expect_broken(run, "its program: the program has ended by sys.exit('no data shard') (");
  EXPECT_TRUE(has(run.out, ":7 in main)")) << run.out;
  EXPECT_TRUE(has(run.err, "1| no data shard\n")) << run.err;
}

TEST_F(RankEnd, OfAnExitCodeTheSystemKeepsALowByte) {
  expect_verified(run_of("call('barrier', 7)\nsys.exit(256)\n"));
}

TEST_F(RankEnd, AClosedOutputIsNoMistake) {
  expect_verified(run_of("call('barrier', 7)\nsys.stdout.close()\n"));
}

TEST_F(RankEnd, ACrashIsNamedWithItsSignalAndItsLine) {
  const RunResult run = run_of("import ctypes\nif rank == 1:\n    ctypes.string_at(0)\ncall('barrier', 9)\n");
  expect_broken(run,
                "guest_gone: rank 1: its process: it is gone after 0 requests; it was killed by SIGSEGV");
  EXPECT_TRUE(has(run.err, "1| Fatal Python error: Segmentation fault\n")) << run.err;
  EXPECT_TRUE(has(run.err, "line 8 in <module>\n")) << run.err;
}

TEST_F(RankEnd, ARefusedCallIsTheFindingWithItsLine) {
  const RunResult run = run_of("call('broadcast', 7, root=5, output=['f32', link.memory.take(16), 4])\n");
  expect_broken(run, "call_root: rank 0: ");
  EXPECT_TRUE(has(run.out, "'main' (train.py:7)")) << run.out;
  EXPECT_FALSE(has(run.out, "guest_raised")) << run.out;
}

TEST_F(RankEnd, ARefusedCallThatIsCaughtIsNoFinding) {
  const std::string caught = R"(
try:
    call('broadcast', 7, root=5, output=['f32', link.memory.take(16), 4])
except RuntimeError:
    pass
)";
  expect_verified(run_of(caught + "call('barrier', 9)\n"));
  const RunResult run = run_of(caught + "raise ValueError('3 heads')\n");
  expect_broken(run, "guest_raised: ranks 0, 1: its program: ValueError: 3 heads");
}

TEST_F(RankEnd, AFolderOfTheUserMayHaveAnyName) {
  const RunResult run = run_of(R"(
import importlib.util, tempfile
with tempfile.TemporaryDirectory() as folder:
    os.mkdir(folder + '/shardproof')
    path = folder + '/shardproof/mine.py'
    with open(path, 'w') as file:
        file.write('\n\ndef fails():\n    raise ValueError("x")\n')
    spec = importlib.util.spec_from_file_location('mine', path)
    mine = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(mine)
    mine.fails()
)");
  expect_broken(run, "shardproof/mine.py:4 in fails)");
}

TEST_F(RankEnd, ALineOfPyTorchIsToldWithTheOneThatHasCalledIt) {
  const RunResult run = run_of(R"(
import tempfile
with tempfile.TemporaryDirectory() as folder:
    sys.path.insert(0, folder)
    os.mkdir(folder + '/torch')
    with open(folder + '/torch/__init__.py', 'w') as file:
        file.write('def linear():\n    raise ValueError("shapes")\n')
    sys.modules.pop('torch', None)
    import torch
    torch.linear()
)");
  expect_broken(run, "ValueError: shapes (raised in torch/__init__.py:2, called at ");
  EXPECT_TRUE(has(run.out, ":15 in <module>)")) << run.out;
}

TEST_F(RankEnd, EveryRunHasAPortOfItsOwn) {
  const std::string program = "if rank == 0:\n    print('port', os.environ['MASTER_PORT'])\n";
  const auto port = [&] { return run_of(program).out.substr(0, 14); };
  const std::string first = port(), second = port();
  EXPECT_TRUE(first.starts_with("0| port ")) << first;
  EXPECT_NE(first, second);
}

}  // namespace
