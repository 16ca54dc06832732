// Reads and inspects mutated dumps, one after the other: fuzz_recordings FIRST COUNT. It ends with 1 at the
// first problem. A dump that takes more than ten seconds ends the program (SIGALRM).

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/verify/recordings/mutated_dumps.h"

int main(int count_of_words, char** words) {
  const std::uint64_t first = count_of_words > 1 ? std::strtoull(words[1], nullptr, 10) : 0;
  const std::uint64_t count = count_of_words > 2 ? std::strtoull(words[2], nullptr, 10) : 100'000;
  std::uint64_t read = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    alarm(10);
    bool was_read = false;
    const std::string problem = test::problem_of_inspecting(test::mutated_dump(seed), was_read);
    read += was_read ? 1 : 0;
    if (problem.empty()) continue;
    std::printf("dump %llu: %s\n", static_cast<unsigned long long>(seed), problem.c_str());
    return 1;
  }
  rusage used = {};
  getrusage(RUSAGE_SELF, &used);
  std::printf("%llu dumps from %llu on, %llu inspected, no problem; at most %ld MiB\n",
              static_cast<unsigned long long>(count), static_cast<unsigned long long>(first),
              static_cast<unsigned long long>(read), used.ru_maxrss / 1024);
  return 0;
}
