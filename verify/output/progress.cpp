#include "verify/output/progress.h"

#include <fmt/format.h>
#include <utility>

#include "sim/base/printable_text.h"

namespace verify {

namespace {

constexpr const char* kClearLine = "\r\x1b[K";

}  // namespace

std::string text_of_rate(double per_second) {
  return per_second < 10 ? fmt::format("{:.2g}", per_second) : fmt::format("{:.0f}", per_second);
}

Progress::Progress(std::ostream& out, bool enabled, std::size_t total, std::string unit)
    : out_(out),
      enabled_(enabled),
      total_(total),
      unit_(std::move(unit)),
      start_(std::chrono::steady_clock::now()),
      next_(start_) {}

Progress::~Progress() {
  if (enabled_) out_ << kClearLine << std::flush;
}

void Progress::step(std::size_t done, const std::string& what) {
  if (!enabled_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return;
  next_ = now + std::chrono::milliseconds(100);
  const double seconds = std::chrono::duration<double>(now - start_).count();
  std::string rate;
  if (done > 0 && seconds > 0) {
    const double per_second = static_cast<double>(done) / seconds;
    rate = fmt::format(", {} {}/s, {:.0f} s left", text_of_rate(per_second), unit_,
                       static_cast<double>(total_ - done) / per_second);
  }
  out_ << kClearLine << fmt::format("{}/{} {}{}: {}", done, total_, unit_, rate, sim::printable_text(what))
       << std::flush;
}

}  // namespace verify
