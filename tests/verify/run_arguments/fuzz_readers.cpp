// Reads mutated run files, one after the other: fuzz_readers FIRST COUNT. It ends with 1 and the file at the
// first problem. A file that takes a reader more than ten seconds ends the program (SIGALRM).

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/verify/run_arguments/mutated_files.h"

int main(int count_of_words, char** words) {
  const std::uint64_t first = count_of_words > 1 ? std::strtoull(words[1], nullptr, 10) : 0;
  const std::uint64_t count = count_of_words > 2 ? std::strtoull(words[2], nullptr, 10) : 100'000;
  std::uint64_t bytes = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const std::string file = test::mutated_file(seed);
    bytes += file.size();
    alarm(10);
    const std::string problem = test::problem_of_reading(file);
    if (problem.empty()) continue;
    std::printf("file %llu: %s\n%s\n", static_cast<unsigned long long>(seed), problem.c_str(), file.c_str());
    return 1;
  }
  rusage used = {};
  getrusage(RUSAGE_SELF, &used);
  std::printf("%llu files from %llu on, %llu bytes, no problem; at most %ld MiB\n",
              static_cast<unsigned long long>(count), static_cast<unsigned long long>(first),
              static_cast<unsigned long long>(bytes), used.ru_maxrss / 1024);
  return 0;
}
