// Proves that libraries which are loaded when they are asked for are found by name and by path, and that
// what is missing is refused with its name.

#include "gpu/device/shared_library.h"

#include <cmath>
#include <gtest/gtest.h>
#include <stdexcept>
#include <string>

namespace {

[[noreturn]] void refuse(const std::string& problem) { throw std::runtime_error(problem); }

std::string problem_of(const char* name, const char* path, const char* function) {
  try {
    const gpu::SharedLibrary library(name, path, refuse);
    return library.find<double(double)>(function)(0) == std::cos(0.0) ? "" : "it is another function";
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

TEST(SharedLibrary, IsFoundByItsNameAndThenByItsPath) {
  EXPECT_EQ(problem_of("libm.so.6", "no/such/path", "cos"), "");
  EXPECT_EQ(problem_of("libno_such_name.so", "libm.so.6", "cos"), "");
}

TEST(SharedLibrary, SaysWhatIsMissing) {
  EXPECT_EQ(problem_of("libno_such_name.so", "no/such/path", "cos"),
            "it cannot be loaded (libno_such_name.so: cannot open shared object file: No such file or "
            "directory)");
  EXPECT_EQ(problem_of("libm.so.6", "no/such/path", "no_such_cosine"),
            "libm.so.6 has no function no_such_cosine");
}

}  // namespace
