// Reads and inspects mutated jobs of one or two dumps, one after the other: fuzz_recordings FIRST COUNT. It
// ends with 1 at the first problem, and says how far it came where it is interrupted. A job that takes more
// than ten seconds ends the program (SIGALRM).

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/verify/recordings/mutated_dumps.h"

namespace {

volatile std::sig_atomic_t is_interrupted = 0;
void interrupt(int) { is_interrupted = 1; }

}  // namespace

int main(int count_of_words, char** words) {
  const std::uint64_t first = count_of_words > 1 ? std::strtoull(words[1], nullptr, 10) : 0;
  const std::uint64_t count = count_of_words > 2 ? std::strtoull(words[2], nullptr, 10) : 100'000;
  std::signal(SIGTERM, interrupt);
  std::signal(SIGINT, interrupt);
  std::uint64_t seed = first, read = 0;
  for (; seed < first + count && is_interrupted == 0; ++seed) {
    alarm(10);
    bool was_read = false;
    const std::string problem = test::problem_of_inspecting(test::mutated_job(seed), was_read);
    read += was_read ? 1 : 0;
    if (problem.empty()) continue;
    std::printf("job %llu: %s\n", static_cast<unsigned long long>(seed), problem.c_str());
    return 1;
  }
  rusage used = {};
  getrusage(RUSAGE_SELF, &used);
  std::printf("%llu jobs from %llu on, %llu inspected, no problem; at most %ld MiB\n",
              static_cast<unsigned long long>(seed - first), static_cast<unsigned long long>(first),
              static_cast<unsigned long long>(read), used.ru_maxrss / 1024);
  return 0;
}
