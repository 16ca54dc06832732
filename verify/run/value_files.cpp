#include "verify/run/value_files.h"

#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <map>
#include <optional>
#include <regex>

#include "sim/base/bfloat16.h"
#include "sim/base/float16.h"
#include "sim/guest/guest_request.h"
#include "sim/optimizer/safetensors.h"
#include "verify/output/refusal_table.h"

namespace verify {

namespace {

namespace fs = std::filesystem;
using Place = sim::SafetensorsIndex::Place;

constexpr std::size_t kTold = 4;  // problems that a refusal has
constexpr sim::DType kFromFine[] = {sim::DType::f64, sim::DType::f32, sim::DType::f16, sim::DType::bf16};

template <typename Stored>
std::vector<double> converted(const std::vector<char>& bytes, double (*value)(Stored)) {
  std::vector<double> elements(bytes.size() / sizeof(Stored));
  for (std::size_t i = 0; i < elements.size(); ++i) {
    Stored stored;
    std::memcpy(&stored, bytes.data() + i * sizeof stored, sizeof stored);
    elements[i] = value(stored);
  }
  return elements;
}

/// Reads the elements of a tensor. Those that are not there any more are no numbers.
std::vector<double> elements_in(const std::string& path, const Place& place) {
  std::vector<char> bytes(place.bytes, '\xff');
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(place.begin));
  file.read(bytes.data(), std::ssize(bytes));
  switch (place.dtype) {
    case sim::DType::f64:
      return converted<double>(bytes, [](double x) { return x; });
    case sim::DType::f32:
      return converted<float>(bytes, [](float x) { return double{x}; });
    case sim::DType::f16:
      return converted<sim::float16>(bytes, [](sim::float16 x) { return double{to_float(x)}; });
    default:
      return converted<sim::bfloat16>(bytes, [](sim::bfloat16 x) { return double{to_float(x)}; });
  }
}

/// Returns why a tensor is not what the request says; "" if it is.
std::string contradiction(const sim::GuestRequest& request, const Place& place) {
  if (request.wish != sim::GuestWish::publish) return "is not what a rank publishes";
  if (std::ranges::find(kFromFine, place.dtype) == std::end(kFromFine))
    return "is neither F64, F32, F16 nor BF16";
  if (request.tensor.dtype != place.dtype || request.tensor.bytes() != static_cast<std::int64_t>(place.bytes))
    return fmt::format("has {} bytes of {}, and {} of {} in the metadata", place.bytes, name_of(place.dtype),
                       request.tensor.bytes(), name_of(request.tensor.dtype));
  return "";
}

/// Reads what the files of a folder have, and keeps what is wrong with them.
class FolderReader {
 public:
  FolderReader(const std::string& folder, ValuesOfFolder& read) : folder_(folder), read_(read) {}

  void read() {
    find_files();
    for (const auto& [rank, path] : files_) read_file(rank, path);
    if (problems_.empty() && read_.values.values.empty())
      problems_.emplace_back("no rank has written a value");
    for (int rank = 0; rank < read_.ranks; ++rank)
      if (!files_.contains(rank))
        problems_.push_back(fmt::format("rank {} of {} has no file", rank, read_.ranks));
  }
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  void find_files() {
    static const std::regex kName(R"(values-(\d{5})-of-(\d{5})\.safetensors)");
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder_, error)) {
      std::smatch found;
      const std::string name = entry.path().filename().string();
      if (!std::regex_match(name, found, kName)) continue;
      const int rank = std::stoi(found[1]), ranks = std::stoi(found[2]);
      if (rank >= ranks || !entry.is_regular_file(error)) {
        problems_.push_back(fmt::format("{} is no file of a rank", name));
        continue;
      }
      if (read_.ranks != 0 && ranks != read_.ranks)
        problems_.push_back(fmt::format("{} is of {} ranks, and others are of {}", name, ranks, read_.ranks));
      read_.ranks = std::max(read_.ranks, ranks);
      files_[rank] = entry.path().string();
    }
    if (files_.empty() && problems_.empty())
      problems_.emplace_back(error ? error.message() : "no file is named values-N-of-M.safetensors");
  }

  void read_file(int rank, const std::string& path) {
    try {
      std::ifstream file(path, std::ios::binary);
      std::error_code error;
      const std::uintmax_t size = fs::file_size(path, error);
      const sim::SafetensorsIndex index = sim::safetensors_index(file, error ? 0 : size, path);
      for (const auto& [name, place] : index.tensors) add(rank, path, name, place, index.metadata);
    } catch (const sim::Error& refused) {
      problems_.push_back(fmt::format("{}: {}", path, refused.refusal().numbers));
    }
  }

  void add(int rank, const std::string& path, const std::string& tensor, const Place& place,
           const std::map<std::string, std::string>& metadata) {
    const auto said = metadata.find(tensor);
    const sim::GuestRequest request = sim::guest_request(said == metadata.end() ? "{}" : said->second);
    if (const std::string why = contradiction(request, place); !why.empty()) {
      problems_.push_back(fmt::format("{}: tensor {} {}", path, tensor, why));
      return;
    }
    read_.coarsest = coarser(read_.coarsest, place.dtype);
    read_.values.add(rank, request.name, request.place, [path, place] { return elements_in(path, place); });
  }

  const std::string& folder_;
  ValuesOfFolder& read_;
  std::map<int, std::string> files_;  // by rank
  std::vector<std::string> problems_;
};

}  // namespace

sim::DType coarser(sim::DType some, sim::DType other) {
  return std::max(some, other, [](sim::DType a, sim::DType b) {
    return std::ranges::find(kFromFine, a) < std::ranges::find(kFromFine, b);
  });
}

ValuesOfFolder values_of_folder(const std::string& folder, const std::string& option) {
  ValuesOfFolder read{.folder = folder};
  FolderReader reader(folder, read);
  reader.read();
  std::vector<std::string> problems = reader.problems();
  if (problems.empty()) return read;
  const std::size_t more = problems.size() - std::min(problems.size(), kTold);
  problems.resize(problems.size() - more);
  if (more > 0) problems.push_back(fmt::format("{} more", more));
  refuse_by("value_files", option, folder, fmt::format("{}", fmt::join(problems, "; ")));
}

}  // namespace verify
