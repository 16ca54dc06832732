#include "verify/output/stopwatch.h"

namespace verify {

void Stopwatch::begin(const std::string& part) {
  end_part();
  part_ = part;
  since_ = std::chrono::steady_clock::now();
}

std::map<std::string, double> Stopwatch::stop() {
  end_part();
  part_.clear();
  return seconds_;
}

void Stopwatch::end_part() {
  if (part_.empty()) return;
  seconds_[part_] += std::chrono::duration<double>(std::chrono::steady_clock::now() - since_).count();
}

}  // namespace verify
