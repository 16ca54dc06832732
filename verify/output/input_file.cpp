#include "verify/output/input_file.h"

#include <filesystem>
#include <system_error>

namespace verify {

std::string what_is_no_plain_file(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  switch (fs::status(path, error).type()) {
    case fs::file_type::regular:
      return "";
    case fs::file_type::not_found:
      return "there is no such file";
    case fs::file_type::none:
      return error.message();
    case fs::file_type::directory:
      return "it is a folder, not a file";
    case fs::file_type::fifo:
      return "it is a named pipe, not a file";
    case fs::file_type::socket:
      return "it is a socket, not a file";
    default:
      return "it is a device, not a file";
  }
}

}  // namespace verify
