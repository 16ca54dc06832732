#include <atomic>
#include <csignal>
#include <ctime>
#include <latch>
#include <string_view>
#include <thread>
#include <unistd.h>

#include "verify/output/progress.h"
#include "verify/output/refusal_table.h"
#include "verify/program/commands.h"
#include "verify/program/report_files.h"
#include "verify/program/run_from.h"
#include "verify/requests/backend_choice.h"
#include "verify/requests/command_requests.h"
#include "verify/requests/scenario.h"
#include "verify/run/program_exam.h"
#include "verify/run/program_exam_report.h"

namespace verify {

namespace {

/// While it lives, the first interrupt (Ctrl-C) is kept until the run in progress is over, so that the result
/// so far is written. The second one ends all at once, because a program may loop. Ranks get neither: they
/// are no processes of the terminal.
class InterruptAfterRun {
 public:
  InterruptAfterRun() {
    sigemptyset(&interrupt_);
    sigaddset(&interrupt_, SIGINT);
    pthread_sigmask(SIG_BLOCK, &interrupt_, &before_);
    waiter_ = std::jthread([this](const std::stop_token& stop) {
      has_begun_.count_down();
      wait(stop);
    });
    has_begun_.wait();  // a process that is forked while a thread begins may have locks that nobody releases
  }
  ~InterruptAfterRun() {
    waiter_ = {};
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  InterruptAfterRun(const InterruptAfterRun&) = delete;
  InterruptAfterRun& operator=(const InterruptAfterRun&) = delete;

  bool has_come() const { return has_come_; }

 private:
  void wait(const std::stop_token& stop) {
    constexpr timespec kStep = {.tv_sec = 0, .tv_nsec = 100'000'000};
    while (!stop.stop_requested()) {
      if (sigtimedwait(&interrupt_, nullptr, &kStep) != SIGINT) continue;
      if (has_come_.exchange(true)) {
        pthread_sigmask(SIG_UNBLOCK, &interrupt_, nullptr);
        raise(SIGINT);
      }
      constexpr std::string_view kSays =
          "\nshardproof: interrupted; it ends after this run, and at once after a second interrupt\n";
      static_cast<void>(!::write(STDERR_FILENO, kSays.data(), kSays.size()));
    }
  }

  sigset_t interrupt_ = {}, before_ = {};
  std::atomic<bool> has_come_ = false;
  std::latch has_begun_{1};
  std::jthread waiter_;
};

}  // namespace

namespace {

/// Returns a suite for each layout, with an outcome for each fault.
std::vector<OutcomeSuite> suites_of(const ProgramExam& exam) {
  std::vector<OutcomeSuite> suites;
  for (const ProgramExamRow& row : exam.rows) {
    if (suites.empty() || suites.back().name != row.layout) suites.push_back({.name = row.layout});
    Outcome outcome{.name = row.site + ":" + row.fault};
    if (row.by == NoticedBy::missed) {
      outcome.problem = "failure";
      outcome.type = "missed";
      outcome.message = "nothing detects this fault";
      outcome.text = outcome.message + "\nreproduce: " + row.reproduce;
    }
    suites.back().outcomes.push_back(std::move(outcome));
  }
  return suites;
}

}  // namespace

int exam_program(const Call& call) {
  require_read_by(call.line.settings, Reader::exam_of_program, "exam -- PROGRAM");
  if (!call.line.scenarios.empty()) refuse_by("one_scenario/exam", call.line.scenarios[0], call.called);
  const ProgramExamRequest request = program_exam_request_of(call.line, call.called);
  const JUnitFile junit(call.line);
  ProgramExam exam;
  {
    const InterruptAfterRun interrupt;
    Progress progress(call.output, "faults");
    exam = run_program_exam(
        request,
        [&](std::size_t done, std::size_t total, const std::string& what) {
          progress.step(done, total, what);
          return !interrupt.has_come();
        },
        [&](const std::string& run, const GuestLine& line) {
          call.output.err << text_of(run, line) << "\n" << std::flush;
        });
  }
  const std::vector<OutcomeSuite> suites = suites_of(exam);
  junit.write(suites);
  if (asks_for_json(call.line)) {
    write_json(call, program_exam_json(request, exam));
  } else {
    call.output.out << program_exam_text(request, exam);
    write_annotations(call.line, suites, call.output.out);
  }
  return exam.exit_code();
}

}  // namespace verify
