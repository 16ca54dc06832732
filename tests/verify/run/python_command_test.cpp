// Words of commands, read as the interpreter reads them. The last test asks the interpreter itself.

#include "verify/run/python_command.h"

#include "sim/base/error.h"
#include "tests/verify/run/guest_test.h"

namespace {

using Words = std::vector<std::string>;
using test::has;
using verify::python_command;
using verify::PythonCommand;

void expect_read(const Words& words, const Words& interpreter, const Words& program) {
  const PythonCommand command = python_command(words);
  EXPECT_EQ(command.interpreter, interpreter);
  EXPECT_EQ(command.program, program);
}

std::string refusal_of(const Words& words) {
  try {
    python_command(words);
    return "none";
  } catch (const sim::Error& error) {
    EXPECT_EQ(error.refusal().code, "run_program_missing");
    return error.refusal().numbers + "; " + error.refusal().hint;
  }
}

TEST(PythonCommand, ShortOptionsMayStandInOneWord) {
  expect_read({"python3", "-uc", "pass", "a"}, {"python3", "-u"}, {"-c", "pass", "a"});
  expect_read({"python3", "-cprint(1)", "--", "-u"}, {"python3"}, {"-c", "print(1)", "--", "-u"});
  expect_read({"python3", "-Im", "mod", "-u"}, {"python3", "-I"}, {"-m", "mod", "-u"});
  expect_read({"python3", "-umMOD"}, {"python3", "-u"}, {"-m", "MOD"});
  expect_read({"python3", "-OOBWignore", "-m", "mod"}, {"python3", "-O", "-O", "-B", "-W", "ignore"},
              {"-m", "mod"});
}

TEST(PythonCommand, ValuesOfOptionsAreNoProgram) {
  expect_read({"python3", "-W", "error", "-X", "dev", "-c", "pass"}, {"python3", "-W", "error", "-X", "dev"},
              {"-c", "pass"});
  expect_read({"python3", "--check-hash-based-pycs", "never", "-c", ""},
              {"python3", "--check-hash-based-pycs", "never"}, {"-c", ""});
}

TEST(PythonCommand, AFileMayStandBehindTwoDashes) {
  const test::TemporaryFile file("train.py", "");
  expect_read({"/usr/bin/python3.9", "-s", "--", file.path(), "-c"}, {"/usr/bin/python3.9", "-s"},
              {file.path(), "-c"});
}

TEST(PythonCommand, WordsWithoutAProgramAreRefused) {
  for (const char* option : {"-V", "-h", "-?", "--version", "--help-all", "-uV", "-x"})
    EXPECT_TRUE(has(refusal_of({"python3", option}), "run does not take -")) << option;
  EXPECT_TRUE(has(refusal_of({"python3"}), "python3 gets no program"));
  EXPECT_TRUE(has(refusal_of({"python3", "-u"}), "python3 gets no program"));
  EXPECT_TRUE(has(refusal_of({"python3", "-"}), "'-' is standard input"));
  EXPECT_TRUE(has(refusal_of({"python3", "-um"}), "-m lacks its value"));
  EXPECT_TRUE(has(refusal_of({"python3", "-W"}), "-W lacks its value"));
  EXPECT_TRUE(has(refusal_of({"python3", "no_such.py"}), "there is no file no_such.py"));
  EXPECT_TRUE(has(refusal_of({}), "there are none"));
  EXPECT_TRUE(has(refusal_of({"ls"}), "ls is no interpreter"));
}

TEST(PythonCommand, ProgramsThatStartOthersAreRefusedWithWhatToGive) {
  EXPECT_TRUE(has(refusal_of({"env", "A=1", "python3", "-c", "pass"}), "NAME=VALUE shardproof run"));
  for (const char* name : {"accelerate", "/opt/bin/deepspeed", "srun", "mpirun"})
    EXPECT_TRUE(has(refusal_of({name, "launch", "train.py"}), "--ranks N -- python PROGRAM")) << name;
}

class RunWords : public test::WithPython {};

/// What a program gets is what it gets from the interpreter itself.
TEST_F(RunWords, TheInterpreterReadsTheSame) {
  const test::TemporaryFile file("words.py",
                                 "import sys\nprint(sys.argv[1:], sys.flags.optimize, sys.flags.isolated, "
                                 "sys.warnoptions, sorted(sys._xoptions), sys.flags.no_site)\n");
  const std::string code = "'import sys; print(sys.argv, sys.flags.bytes_warning, sys.path[0])'";
  for (const std::string& words :
       {"-OI " + file.path() + " a -c", "-EWerror -Xdev " + file.path(), "-sX utf8 -- " + file.path() + " b",
        "-bbc " + code + " -W x", "-Ic " + code, "-qSB " + file.path()}) {
    const test::RunResult plain = test::run_process("python3 " + words);
    const test::RunResult run = test::run("run --ranks 1 -- python3 " + words);
    EXPECT_EQ(run.exit_code, 0) << words << run.out << run.err;
    EXPECT_EQ(run.out.substr(0, run.out.find('\n') + 1), "0| " + plain.out) << words;
  }
}

}  // namespace
