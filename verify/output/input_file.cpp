#include "verify/output/input_file.h"

#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <system_error>
#include <utility>

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

InputText text_of_input(const std::string& path, std::size_t most_bytes) {
  if (std::string problem = what_is_no_plain_file(path); !problem.empty()) return {"", std::move(problem)};
  std::ifstream file(path, std::ios::binary);
  std::string text(most_bytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (!file.is_open() || file.bad()) return {"", "it cannot be read"};
  if (text.size() > most_bytes) return {"", fmt::format("it has more than {} bytes", most_bytes)};
  return {std::move(text), ""};
}

std::string without_blanks(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

}  // namespace verify
