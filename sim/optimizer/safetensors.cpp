#include "sim/optimizer/safetensors.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "sim/base/error.h"

namespace sim {

namespace {

using Json = nlohmann::json;

constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kMostHeaderBytes = 100'000'000;  // the limit of the format
constexpr const char* kMetadata = "__metadata__";
constexpr const char* kFieldTensors = "shardproof.field";  // the metadata key of a JSON list of their names
constexpr std::int64_t kFieldNumbers = 4;

struct StoredName {
  DType dtype;
  const char* text;
};
constexpr std::array<StoredName, 5> kNames = {{{DType::f64, "F64"},
                                               {DType::f32, "F32"},
                                               {DType::bf16, "BF16"},
                                               {DType::f16, "F16"},
                                               {DType::i32, "I32"}}};

[[noreturn]] void refuse_bytes(const std::string& name, std::string numbers, const char* rule) {
  refuse({.code = "safetensors",
          .option = name,
          .numbers = std::move(numbers),
          .rule = rule,
          .hint = "a copy of the file as shardproof wrote it"});
}

const char* stored_name(DType dtype) {
  const DType stored = dtype == DType::field ? DType::f64 : dtype;
  return std::find_if(kNames.begin(), kNames.end(), [&](const StoredName& n) { return n.dtype == stored; })
      ->text;
}

/// Returns the names of the tensors of the field, as a JSON list.
Json field_names(const Safetensors& file) {
  Json names = Json::array();
  for (const auto& [name, tensor] : file.tensors) {
    if (tensor.dtype == DType::field) names.push_back(name);
  }
  return names;
}

/// Refuses tensors and metadata that cannot be written. Without this check, a reader could not tell such a
/// mistake from a damaged file.
void require_writable(const Safetensors& file) {
  const auto says = [](const std::string& name, const char* rule) {
    refuse_bytes(name, "the entry cannot be written", rule);
  };
  for (const auto& [name, tensor] : file.tensors) {
    if (name == kMetadata || !is_utf8(name)) says(name, "a tensor's name is UTF-8, and is not __metadata__");
    std::int64_t bytes = size_of(tensor.dtype);
    for (const std::int64_t size : tensor.shape) bytes *= size;
    if (bytes != std::ssize(tensor.values)) says(name, "a tensor has as many bytes as its shape says");
  }
  if (file.metadata.contains(kFieldTensors))
    says(kFieldTensors, "metadata of the caller does not use this key");
}

/// Parses a JSON text, and refuses one in which an object has a key twice. The result is discarded if the
/// text is not JSON.
Json parsed(std::string_view text, const std::string& name) {
  std::vector<std::set<std::string>> keys;
  const auto visit = [&](int, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second)
      refuse_bytes(name, fmt::format("the key {} stands twice", value.get<std::string>()),
                   "a JSON object has each key once");
    return true;
  };
  return Json::parse(text, visit, false);
}

/// Whether the entry of a tensor in a header has its members, of their kinds.
bool is_entry(const Json& entry) {
  const auto has = [&](const char* name, Json::value_t kind) {
    return entry.is_object() && entry.contains(name) && entry.at(name).type() == kind;
  };
  return has("dtype", Json::value_t::string) && has("shape", Json::value_t::array) &&
         has("data_offsets", Json::value_t::array) && entry.at("data_offsets").size() == 2;
}

/// Turns a tensor whose last dimension is the numbers of an element of the field into one of the field.
template <typename Says>
void become_field(SafetensorsIndex::Place& tensor, const Says& says) {
  const bool is_field =
      tensor.dtype == DType::f64 && !tensor.shape.empty() && tensor.shape.back() == kFieldNumbers;
  if (!is_field) says("a tensor of the field has a last dimension of four F64");
  tensor.dtype = DType::field;
  tensor.shape.pop_back();
}

/// Reads the entries of a header.
struct Reader {
  std::uint64_t size;              // bytes after the header
  const std::string& file;         // its name, for messages
  std::set<std::string> of_field;  // names of the tensors of the field

  /// Reads the sizes of a shape. It refuses sizes whose product exceeds the bytes of the file, so that the
  /// product cannot overflow; a shape with a size of 0 has no elements.
  template <typename Says>
  std::vector<std::int64_t> shape(const Json& sizes, std::int64_t bytes, const Says& says) const {
    const auto most = static_cast<std::int64_t>(size);
    const bool is_empty = std::any_of(sizes.begin(), sizes.end(), [](const Json& one) { return one == 0; });
    std::vector<std::int64_t> shape;
    for (const Json& one : sizes) {
      const bool is_size = one.is_number_unsigned() && one <= std::numeric_limits<std::int32_t>::max();
      shape.push_back(is_size ? one.get<std::int64_t>() : -1);
      if (!is_size || (!is_empty && bytes > most / shape.back()))
        says("the values of the shape fit into the file");
      if (!is_empty) bytes *= shape.back();
    }
    return shape;
  }

  /// Reads an entry whose values begin after those before it, which end at `end`.
  SafetensorsIndex::Place tensor(const std::string& name, const Json& entry, std::uint64_t& end) const {
    const auto says = [&](const char* rule) { refuse_bytes(file, "tensor " + name, rule); };
    if (!is_entry(entry)) says("a tensor has dtype, shape and two data_offsets");
    SafetensorsIndex::Place tensor;
    const auto known = std::find_if(kNames.begin(), kNames.end(),
                                    [&](const StoredName& n) { return entry.at("dtype") == n.text; });
    if (known == kNames.end()) says("dtypes are F64, F32, BF16, F16 and I32");
    tensor.dtype = known->dtype;
    tensor.shape = shape(entry.at("shape"), size_of(tensor.dtype), says);
    const bool is_empty = std::find(tensor.shape.begin(), tensor.shape.end(), 0) != tensor.shape.end();
    std::int64_t bytes = is_empty ? 0 : size_of(tensor.dtype);  // no overflow: an empty tensor starts at 0
    for (const std::int64_t one : tensor.shape) bytes *= one;
    const Json& offsets = entry.at("data_offsets");
    const auto after = end + static_cast<std::uint64_t>(bytes);
    const bool are_numbers = offsets.at(0).is_number_unsigned() && offsets.at(1).is_number_unsigned();
    if (!are_numbers || offsets.at(0) != end || offsets.at(1) != after || after > size)
      says("the values of the tensors follow one another without gaps, as long as their shapes say");
    tensor.begin = end;
    tensor.bytes = static_cast<std::uint64_t>(bytes);
    end = after;
    if (of_field.contains(name)) become_field(tensor, says);
    return tensor;
  }
};

/// Returns the bytes of the header of a file that begins with these bytes and has so many in all. It refuses
/// a header that does not lie within the file.
std::uint64_t header_size(std::string_view begin, std::uint64_t size, const std::string& name) {
  if (begin.size() < kLengthBytes)
    refuse_bytes(name, fmt::format("the file has {} bytes", begin.size()),
                 "a file begins with eight bytes that hold the length of its header");
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i)
    length |= std::uint64_t{static_cast<unsigned char>(begin[i])} << (8 * i);
  if (length > kMostHeaderBytes || length > size - kLengthBytes) {
    refuse_bytes(name, fmt::format("a header of {} bytes in a file of {}", length, size),
                 "the header lies within the file, and has at most 100000000 bytes");
  }
  return length;
}

std::set<std::string> names_in(const std::string& text, const std::string& name) {
  const Json list = Json::parse(text, nullptr, false);
  std::set<std::string> names;
  bool fits = list.is_array();
  for (const Json& one : fits ? list : Json::array()) {
    fits = fits && one.is_string();
    if (fits) names.insert(one.get<std::string>());
  }
  if (!fits) refuse_bytes(name, kFieldTensors, "the metadata names tensors of the field in a JSON list");
  return names;
}

std::map<std::string, std::string> metadata_of(const Json& header, const std::string& name) {
  std::map<std::string, std::string> metadata;
  if (!header.contains(kMetadata)) return metadata;
  const Json& entries = header[kMetadata];
  if (!entries.is_object())
    refuse_bytes(name, kMetadata, "the metadata is a JSON object whose values are texts");
  for (const auto& [key, value] : entries.items()) {
    if (!value.is_string())
      refuse_bytes(name, kMetadata, "the metadata is a JSON object whose values are texts");
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

/// Returns the begin and end of an entry's values, by which entries are sorted. An offset that is missing or
/// malformed counts as 0 here; Reader::tensor refuses it later.
std::pair<std::uint64_t, std::uint64_t> offsets_of(const Json& entry) {
  const auto number = [&](std::size_t i) -> std::uint64_t {
    if (!entry.is_object() || !entry.contains("data_offsets")) return 0;
    const Json& offsets = entry.at("data_offsets");
    const bool has = offsets.is_array() && i < offsets.size() && offsets.at(i).is_number_unsigned();
    return has ? offsets.at(i).get<std::uint64_t>() : 0;
  };
  return {number(0), number(1)};
}

SafetensorsIndex index_of(std::string_view text, std::uint64_t file_size, const std::string& name) {
  const Json header = parsed(text, name);
  if (!header.is_object() || text.front() != '{')
    refuse_bytes(name, "the header is something else", "the header is a JSON object");
  SafetensorsIndex index{.tensors = {}, .metadata = metadata_of(header, name)};
  const std::uint64_t first = kLengthBytes + text.size();
  Reader reader{.size = file_size - first, .file = name, .of_field = {}};
  if (const auto of_field = index.metadata.extract(kFieldTensors))
    reader.of_field = names_in(of_field.mapped(), name);
  std::vector<std::pair<std::pair<std::uint64_t, std::uint64_t>, std::string>> order;  // the order of values
  for (const auto& [key, entry] : header.items()) {
    if (key != kMetadata) order.emplace_back(offsets_of(entry), key);
  }
  std::sort(order.begin(), order.end());
  std::uint64_t end = 0;
  for (const auto& [offsets, key] : order) {
    SafetensorsIndex::Place place = reader.tensor(key, header.at(key), end);
    place.begin += first;
    index.tensors[key] = std::move(place);
  }
  if (end != reader.size) {
    refuse_bytes(name, fmt::format("{} bytes follow the header, and the tensors have {}", reader.size, end),
                 "the values of the tensors fill the file");
  }
  return index;
}

}  // namespace

bool is_utf8(std::string_view name) {
  try {
    static_cast<void>(Json(name).dump());
    return true;
  } catch (const Json::type_error&) {
    return false;
  }
}

std::string encoded(const Safetensors& file) {
  require_writable(file);
  Json header = Json::object();
  std::map<std::string, std::string> metadata = file.metadata;
  if (const Json names = field_names(file); !names.empty()) metadata[kFieldTensors] = names.dump();
  if (!metadata.empty()) header[kMetadata] = metadata;
  std::uint64_t begin = 0;
  for (const auto& [name, tensor] : file.tensors) {
    std::vector<std::int64_t> shape = tensor.shape;
    if (tensor.dtype == DType::field) shape.push_back(kFieldNumbers);
    const std::uint64_t end = begin + tensor.values.size();
    header[name] = {{"dtype", stored_name(tensor.dtype)}, {"shape", shape}, {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + kLengthBytes - 1) / kLengthBytes * kLengthBytes, ' ');  // aligns the values
  std::string bytes(kLengthBytes, '\0');
  for (std::size_t i = 0; i < kLengthBytes; ++i) bytes[i] = static_cast<char>(text.size() >> (8 * i));
  bytes += text;
  for (const auto& [name, tensor] : file.tensors)
    bytes.append(reinterpret_cast<const char*>(tensor.values.data()), tensor.values.size());
  return bytes;
}

Safetensors decoded(std::string_view bytes, const std::string& name) {
  const std::uint64_t length = header_size(bytes, bytes.size(), name);
  SafetensorsIndex index = index_of(bytes.substr(kLengthBytes, length), bytes.size(), name);
  Safetensors file{.tensors = {}, .metadata = std::move(index.metadata)};
  for (auto& [key, place] : index.tensors) {
    const auto own = std::as_bytes(std::span(bytes.substr(place.begin, place.bytes)));
    file.tensors[key] = {place.dtype, std::move(place.shape), {own.begin(), own.end()}};
  }
  return file;
}

SafetensorsIndex safetensors_index(std::istream& file, std::uint64_t size, const std::string& name) {
  std::string begin(std::min<std::uint64_t>(size, kLengthBytes), '\0');
  file.read(begin.data(), std::ssize(begin));
  std::string text(header_size(begin, size, name), '\0');
  if (!file.read(text.data(), std::ssize(text)))
    refuse_bytes(name, fmt::format("a header of {} bytes cannot be read", text.size()),
                 "the file is read as it was when it was opened");
  return index_of(text, size, name);
}

}  // namespace sim
