// Exams of programs: every verdict is provoked by a program in which it must come, beside one in which it
// must not.

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/verify/run/guest_test.h"

namespace {

using test::has;

class ProgramExam : public test::WithPython {};

/// A program that sums a number over its ranks, and may show one to a comparison.
constexpr const char* kSums = R"(
size = int(os.environ["WORLD_SIZE"])
def show(value):
    publish('gradient', 0, [value])
def summed(value):
    at = link.memory.take(8)
    link.memory.map[at:at + 8] = array.array('d', [value]).tobytes()
    site = ["summed", "train.py", 9]
    link.ask({"do": "call", "operation": "all_reduce", "site": site, "output": ['f64', at, 1]})
    return array.array('d', bytes(link.memory.map[at:at + 8]))[0]
)";
constexpr const char* kAgainst = "--ranks 2 --against ' '";

test::RunResult exam_of(const std::string& program, const std::string& options) {
  const test::TemporaryFile file("train.py",
                                 std::string(test::kGuestBegin) + test::kGuestPublishes + kSums + program);
  return test::run("exam " + options + " -- python3 " + file.path());
}

/// Returns by what a fault of a program is noticed, with the document of the exam.
nlohmann::json document_of(const std::string& program, const std::string& options) {
  const test::RunResult run = exam_of(program, options + " --format json");
  return nlohmann::json::parse(run.out);
}
std::string noticed_by(const nlohmann::json& document, const std::string& fault) {
  for (const auto& row : document["rows"])
    if (row["fault"] == fault) return row["by"];
  return "not planted";
}

TEST_F(ProgramExam, WhatTheComparisonNoticesIsNamed) {
  const auto document = document_of("show(summed(6 / size))\n", kAgainst);
  EXPECT_EQ(noticed_by(document, "summed:skip"), "comparison") << document.dump(1);
  EXPECT_EQ(noticed_by(document, "summed:scale=2"), "comparison") << document.dump(1);
  EXPECT_EQ(noticed_by(document, "summed:scale=1+2^-10@place=1"), "comparison") << document.dump(1);
  EXPECT_EQ(noticed_by(document, "summed:skip@place=1"), "calls") << document.dump(1);
  EXPECT_EQ(noticed_by(document, "summed:early"), "not planted") << document.dump(1);
  // Each rank calls once, so there is no input before.
  EXPECT_EQ(noticed_by(document, "summed:stale"), "without effect") << document.dump(1);
  EXPECT_EQ(document["missed"], 0) << document.dump(1);
  EXPECT_EQ(document["verdict"], "verified") << document.dump(1);
}

TEST_F(ProgramExam, AnAssertOfTheProgramCountsForTheProgram) {
  const std::string asserts = "total = summed(6 / size)\nassert total == 6, total\n";
  const auto with = document_of(asserts + "show(total)\n", std::string(kAgainst) + " --fault scale");
  EXPECT_EQ(noticed_by(with, "summed:scale=2"), "program") << with.dump(1);
  EXPECT_TRUE(has(with["rows"][0]["sentence"], "guest_raised")) << with.dump(1);
  const auto exits = document_of("sys.exit(0 if summed(6 / size) == 6 else 5)\n", "--ranks 2 --fault scale");
  EXPECT_EQ(noticed_by(exits, "summed:scale=2"), "program") << exits.dump(1);
}

TEST_F(ProgramExam, AFaultThatChangesNoValueIsNotMissed) {
  // The twin of the first program: what it sums is not published.
  const auto document =
      document_of("summed(6 / size)\nshow(3)\n", std::string(kAgainst) + " --fault scale,skip");
  EXPECT_EQ(noticed_by(document, "summed:scale=2"), "without effect") << document.dump(1);
  EXPECT_EQ(document["without_effect"], 5) << document.dump(1);
  EXPECT_EQ(document["score"], 1.0) << document.dump(1);  // of the one that leaves a rank out
}

TEST_F(ProgramExam, AValueThatDiffersWithinItsBoundIsMissed) {
  // The sum counts so little that a comparison takes it for rounding, and still changes bits.
  const test::RunResult run =
      exam_of("show(3 + 2**-50 * summed(6 / size))\n", std::string(kAgainst) + " --fault scale");
  EXPECT_EQ(run.exit_code, 1) << run.out << run.err;
  EXPECT_TRUE(has(run.out, "missed: the program summed:scale=2\n")) << run.out;
  EXPECT_TRUE(has(run.out, "run --plant summed:scale=2 --ranks 2 --against ' ' -- python3")) << run.out;
}

TEST_F(ProgramExam, WithoutAComparisonTheTextSaysSo) {
  const test::RunResult run = exam_of("show(summed(6 / size))\n", "--ranks 2 --fault scale,skip");
  EXPECT_EQ(run.exit_code, 1) << run.out << run.err;
  EXPECT_TRUE(has(run.out, "falsified: 1 of 6 faults are noticed: 1 by the calls\n")) << run.out;
  EXPECT_TRUE(has(run.out, "compared   no values")) << run.out;
}

TEST_F(ProgramExam, NoFaultIsPlantedInAProgramThatDoesNotHold) {
  const test::RunResult wrong = exam_of("show(summed(6))\n", kAgainst);
  EXPECT_EQ(wrong.exit_code, 1) << wrong.out << wrong.err;
  EXPECT_TRUE(has(wrong.out, "no fault is planted")) << wrong.out;
  EXPECT_TRUE(has(wrong.out, "it is 2 ")) << wrong.out;
  const test::RunResult raises = exam_of("raise ValueError('3 heads')\n", "--ranks 2");
  EXPECT_EQ(raises.exit_code, 3) << raises.out << raises.err;
  EXPECT_TRUE(has(raises.out, "3 heads")) << raises.out;
  EXPECT_TRUE(has(raises.err, "the program| 0| ")) << raises.err;
  const test::RunResult silent = exam_of("summed(6 / size)\n", kAgainst);
  EXPECT_EQ(silent.exit_code, 4) << silent.out << silent.err;
  EXPECT_TRUE(has(silent.out, "nothing compared")) << silent.out;
}

TEST_F(ProgramExam, AProgramWithoutCallsIsNotExamined) {
  const test::RunResult run = exam_of("show(3)\n", kAgainst);
  EXPECT_EQ(run.exit_code, 4) << run.out << run.err;
  EXPECT_TRUE(has(run.out, "nothing examined: ")) << run.out;
}

TEST_F(ProgramExam, AtMostSoManyFaultsArePlanted) {
  const std::string program = "show(summed(6 / size))\ncall('barrier', 9)\n";
  const auto all = document_of(program, kAgainst);
  const test::RunResult few = exam_of(program, std::string(kAgainst) + " --most-faults 3");
  EXPECT_TRUE(has(few.out, "planted    3 of " + all["faults"].dump() + " faults (--most-faults)")) << few.out;
  const auto document = document_of(program, std::string(kAgainst) + " --most-faults 3");
  std::set<std::string> sites;
  for (const auto& row : document["rows"]) sites.insert(row["site"]);
  EXPECT_EQ(sites, (std::set<std::string>{"main", "summed"})) << document.dump(1);
}

TEST_F(ProgramExam, AProgramThatCallsWithoutEndIsEnded) {
  const auto document = document_of("while summed(6 / size) != 6: pass\n", "--ranks 2 --fault own-term");
  EXPECT_EQ(noticed_by(document, "summed:own-term"), "calls") << document.dump(1);
  EXPECT_TRUE(has(document["rows"][0]["sentence"], "call_limit")) << document.dump(1);
}

TEST_F(ProgramExam, WholeNumbersAreNotMultiplied) {
  const auto document =
      document_of("at = link.memory.take(8)\ncall('all_reduce', 9, output=['i64', at, 1])\n",
                  "--ranks 2 --fault scale,nan");
  EXPECT_EQ(noticed_by(document, "main:scale=2"), "unmet") << document.dump(1);
  EXPECT_EQ(noticed_by(document, "main:nan"), "missed") << document.dump(1);
}

TEST_F(ProgramExam, EachLayoutIsExaminedWithItsOwnRanks) {
  const auto document = document_of("show(summed(6 / size))\n", "--layouts 'tp2; dp4' --fault own-term");
  ASSERT_EQ(document["rows"].size(), 4U) << document.dump(1);
  EXPECT_EQ(document["rows"][0]["layout"], "tp2");
  EXPECT_EQ(document["rows"][3]["layout"], "dp4");
  EXPECT_EQ(document["rows"][3]["fault"], "summed:own-term@place=1");
  EXPECT_EQ(document["noticed"]["comparison"], 4) << document.dump(1);
}

TEST_F(ProgramExam, OptionsOfAnotherExamAreRefused) {
  for (const char* options : {"--ranks 2 --case mlp", "--ranks 2 --plant summed:skip", "--ranks 2 --power",
                              "--ranks 2 --trace /tmp/t.json", "--ranks 2 --weights program"}) {
    const test::RunResult run = exam_of("show(3)\n", options);
    EXPECT_EQ(run.exit_code, 2) << options << run.out;
    EXPECT_TRUE(has(run.err, "option_without_effect")) << options << run.err;
  }
  EXPECT_TRUE(has(exam_of("show(3)\n", "--ranks 2 --fault skp").err, "unknown_fault"));
  EXPECT_TRUE(has(exam_of("show(3)\n", "").err, "missing_option"));
  EXPECT_TRUE(has(exam_of("show(3)\n", "bugs.ini --ranks 2").err, "one_scenario"));
  EXPECT_TRUE(has(test::run("exam --case mlp --layouts tp2").err, "option_without_effect"));
}

}  // namespace
