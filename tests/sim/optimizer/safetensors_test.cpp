// Proves that tensors survive writing and reading, and that a file that was cut short or changed is
// refused and never read in part.

#include "sim/optimizer/safetensors.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <span>

#include "sim/base/error.h"

namespace {

using namespace sim;

Safetensors drawn_file() {
  Safetensors file;
  const int tensors = *rc::gen::inRange(0, 5);
  for (int i = 0; i < tensors; ++i) {
    const DType dtype = *rc::gen::element(DType::f64, DType::f32, DType::bf16, DType::field, DType::i32);
    const auto shape = *rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(0, 4));
    std::int64_t bytes = size_of(dtype);
    for (const std::int64_t size : shape) bytes *= size;
    StoredTensor tensor{dtype, shape, {}};
    for (std::int64_t k = 0; k < bytes; ++k)
      tensor.values.push_back(static_cast<std::byte>(*rc::gen::arbitrary<std::uint8_t>()));
    file.tensors["tensor\n" + std::to_string(i)] = tensor;
  }
  if (*rc::gen::arbitrary<bool>()) file.metadata["format"] = "pt";
  return file;
}

RC_GTEST_PROP(Safetensors, AreReadAsTheyWereWritten, ()) {
  const Safetensors file = drawn_file();
  RC_ASSERT(decoded(encoded(file), "file") == file);
}

RC_GTEST_PROP(Safetensors, CutShortTheyAreRefused, ()) {
  const std::string bytes = encoded(drawn_file());
  const auto length = *rc::gen::inRange<std::size_t>(0, bytes.size());
  RC_ASSERT_THROWS_AS(decoded(std::string_view(bytes).substr(0, length), "file"), Error);
}

RC_GTEST_PROP(Safetensors, AnyBytesAreReadOrRefused, ()) {
  std::string bytes = encoded(drawn_file());
  for (int changes = *rc::gen::inRange(1, 4); changes > 0; --changes)
    bytes[*rc::gen::inRange<std::size_t>(0, bytes.size())] = *rc::gen::arbitrary<char>();
  try {
    decoded(bytes, "file");
  } catch (const Error& error) {
    RC_ASSERT(error.refusal().code == "safetensors");
  }
}

std::string with_header(const std::string& header, const std::string& values = "") {
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size());
  return bytes + header + values;
}

TEST(Safetensors, SayWhatIsWrong) {
  const auto rule_of = [](const std::string& bytes) -> std::string {
    try {
      decoded(bytes, "file");
    } catch (const Error& error) {
      EXPECT_EQ(error.refusal().code, "safetensors");
      return error.refusal().rule;
    }
    return "";
  };
  EXPECT_EQ(rule_of("1234567"), "a file begins with eight bytes that hold the length of its header");
  EXPECT_EQ(rule_of(std::string(8, '\xff')),
            "the header lies within the file, and has at most 100000000 bytes");
  EXPECT_EQ(rule_of(with_header("[]")), "the header is a JSON object");
  EXPECT_EQ(rule_of(with_header(R"({"a":{"dtype":"F8","shape":[1],"data_offsets":[0,1]}})", "x")),
            "dtypes are F64, F32, BF16, F16 and I32");
  EXPECT_EQ(rule_of(with_header(R"({"a":{"dtype":"F32","shape":[1]}})", "1234")),
            "a tensor has dtype, shape and two data_offsets");
  EXPECT_EQ(rule_of(with_header(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "1234")),
            "the values of the shape fit into the file");
  EXPECT_EQ(
      rule_of(with_header(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})")),
      "the values of the shape fit into the file");
  EXPECT_EQ(rule_of(with_header(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", "12345678")),
            "the values of the tensors follow one another without gaps, as long as their shapes say");
  EXPECT_EQ(rule_of(with_header(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "12345")),
            "the values of the tensors fill the file");
  EXPECT_EQ(rule_of(with_header(R"({"__metadata__":{"a":1}})")),
            "the metadata is a JSON object whose values are texts");
  EXPECT_EQ(rule_of(with_header(R"({"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0],"shape":[1]}})")),
            "a JSON object has each key once");
  EXPECT_EQ(rule_of(with_header(R"({"__metadata__":{"shardproof.field":"a"}})")),
            "the metadata names tensors of the field in a JSON list");
}

TEST(Safetensors, AreWrittenOnlyAsTheyCanBeRead) {
  const auto code_of = [](const Safetensors& file) -> std::string {
    try {
      encoded(file);
    } catch (const Error& error) {
      return error.refusal().code;
    }
    return "";
  };
  const StoredTensor none{DType::f32, {0}, {}};
  EXPECT_EQ(code_of({.tensors = {{"a\nb", none}}, .metadata = {}}), "");
  EXPECT_EQ(code_of({.tensors = {{"a", {DType::f32, {1}, {}}}}, .metadata = {}}), "safetensors");
  EXPECT_EQ(code_of({.tensors = {{"__metadata__", none}}, .metadata = {}}), "safetensors");
  EXPECT_EQ(code_of({.tensors = {{"a\xff", none}}, .metadata = {}}), "safetensors");
  EXPECT_EQ(code_of({.tensors = {}, .metadata = {{"shardproof.field", ""}}}), "safetensors");
}

TEST(Safetensors, HaveTheBytesOfTheFormat) {
  const Safetensors file{
      .tensors = {{"a", {DType::bf16, {2}, {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}}}}},
      .metadata = {}};
  EXPECT_EQ(encoded(file), std::string("\x38\0\0\0\0\0\0\0", 8) +
                               R"({"a":{"data_offsets":[0,4],"dtype":"BF16","shape":[2]}} )" +
                               "\x01\x02\x03\x04");
}

/// The bytes were written by safetensors 0.8.0 for Python, from [[1, 2, 3], [4, 5, 6]] in float32 and
/// [7, -8] in int32 of NumPy.
TEST(Safetensors, OfAnotherProgramAreRead) {
  const std::string written =
      with_header(R"({"__metadata__":{"by":"safetensors"},"a":{"dtype":"F32","shape":[2,3],)"
                  R"("data_offsets":[0,24]},"b":{"dtype":"I32","shape":[2],"data_offsets":[24,32]}}    )",
                  std::string("\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40\0\0\x80\x40\0\0\xa0\x40\0\0\xc0\x40"
                              "\x07\0\0\0\xf8\xff\xff\xff",
                              32));
  const Safetensors file = decoded(written, "file");
  const float a[] = {1, 2, 3, 4, 5, 6};
  const std::int32_t b[] = {7, -8};
  const auto bytes_of = [](const auto& values) {
    const auto bytes = std::as_bytes(std::span(values));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  };
  EXPECT_EQ(file.tensors.at("a"), (StoredTensor{DType::f32, {2, 3}, bytes_of(a)}));
  EXPECT_EQ(file.tensors.at("b"), (StoredTensor{DType::i32, {2}, bytes_of(b)}));
  EXPECT_EQ(file.metadata.at("by"), "safetensors");
}

}  // namespace
