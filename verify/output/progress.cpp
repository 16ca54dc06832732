#include "verify/output/progress.h"

#include <atomic>
#include <fmt/format.h>
#include <utility>

#include "sim/base/printable_text.h"

namespace verify {

namespace {

constexpr const char* kClearLine = "\r\x1b[K";

std::atomic<bool> asked = false;
static_assert(std::atomic<bool>::is_always_lock_free);  // a signal handler may touch no other

}  // namespace

std::string text_of_rate(double per_second) {
  return per_second < 10 ? fmt::format("{:.2g}", per_second) : fmt::format("{:.0f}", per_second);
}

std::optional<double> Progress::seconds_if_due() {
  if (!output_.progress && !output_.lines) return std::nullopt;
  constexpr std::chrono::milliseconds kOfTerminal(100), kOfLines(30'000);
  const auto pause = output_.progress ? kOfTerminal : kOfLines;
  const Time now = std::chrono::steady_clock::now();
  if (!start_) {
    start_ = now;
    next_ = output_.progress ? now : now + pause;
  }
  if (now < next_) return std::nullopt;
  next_ = now + pause;
  return std::chrono::duration<double>(now - *start_).count();
}

void Progress::write(const std::string& text) {
  if (output_.progress) {
    output_.err << kClearLine << text << std::flush;
  } else {
    output_.err << text << "\n" << std::flush;
  }
}

void Progress::step(std::size_t done, std::size_t total, const std::string& what) {
  const std::optional<double> seconds = seconds_if_due();
  if (!seconds) return;
  std::string rate;
  if (done > 0 && *seconds > 0) {
    const double per_second = static_cast<double>(done) / *seconds;
    rate = fmt::format(", {} {}/s, about {:.0f} s left", text_of_rate(per_second), unit_,
                       static_cast<double>(total - done) / per_second);
  }
  write(fmt::format("{}/{} {}{}: {}", done, total, unit_, rate, sim::printable_text(what)));
}

void Progress::count(std::size_t done) {
  const std::optional<double> seconds = seconds_if_due();
  if (!seconds) return;
  const bool has_rate = done > 0 && *seconds > 0;
  write(
      fmt::format("{} {}", done, unit_) +
      (has_rate ? fmt::format(", {} {}/s", text_of_rate(static_cast<double>(done) / *seconds), unit_) : ""));
}

void Progress::end() {
  if (output_.progress) output_.err << kClearLine << std::flush;
}

InterruptibleWork::InterruptibleWork(const Output& output, std::string unit)
    : progress_(output, std::move(unit)) {
  asked = false;
  struct sigaction keep = {};
  keep.sa_handler = [](int) { asked = true; };
  keep.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);  // a second interrupt ends the process
  sigaction(SIGINT, &keep, &before_);
}

bool InterruptibleWork::operator()(std::size_t done, std::size_t total, const std::string& what) {
  progress_.step(done, total, what);
  return !asked;
}

}  // namespace verify
