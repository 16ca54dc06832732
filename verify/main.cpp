#include <string>
#include <vector>

#include "verify/gpu_backends.h"
#include "verify/program.h"
#include "verify/terminal.h"

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return verify::run_program(arguments, verify::terminal_output(), [](const verify::BackendRequest& request) {
    return verify::open_gpu_backend(request);
  });
}
