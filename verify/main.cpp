#include <string>
#include <vector>

#include "verify/backends/gpu_backends.h"
#include "verify/output/output.h"
#include "verify/output/phrases.h"
#include "verify/program/program.h"
#include "verify/program_build.h"

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return verify::run_program(arguments, verify::terminal_output(), verify::gpu_backends(),
                             verify::program_build(), verify::quoted_for_shell(argv[0]));
}
