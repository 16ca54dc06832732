// Values that ranks have written into a folder.

#include "verify/run/value_files.h"

#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <rapidcheck/gtest.h>
#include <sstream>

#include "sim/optimizer/safetensors.h"
#include "tests/support/refusal_code.h"
#include "tests/support/run.h"
#include "tests/support/temporary_folder.h"
#include "tests/verify/run/guest_test.h"
#include "verify/run/compared_values.h"

namespace {

namespace fs = std::filesystem;
using test::has;

/// A gradient [4] on ranks that have equal parts of it, as f32.
class Folder {
 public:
  explicit Folder(const std::string& name) : folder_("-" + name) { fs::create_directories(path()); }
  /// `parameter` is the name of a parameter that the file has beside it.
  void write(int rank, int ranks, const std::vector<float>& whole, const std::string& parameter = "") const {
    const auto count = std::ssize(whole) / ranks;
    sim::StoredTensor tensor{.dtype = sim::DType::f32, .shape = {count}, .values = {}};
    const auto own = std::as_bytes(
        std::span(whole).subspan(static_cast<std::size_t>(rank * count), static_cast<std::size_t>(count)));
    tensor.values.assign(own.begin(), own.end());
    const nlohmann::json place = {{"kind", "gradient"},      {"step", 0},
                                  {"whole", {whole.size()}}, {"offset", {0}},
                                  {"begin", rank * count},   {"shape", {whole.size()}}};
    nlohmann::json request = {
        {"do", "publish"}, {"name", "weight"}, {"tensor", {"f32", 0, count}}, {"place", place}};
    sim::Safetensors written{.tensors = {{"0", tensor}}, .metadata = {{"0", request.dump()}}};
    if (!parameter.empty()) {
      request["name"] = parameter;
      request["place"]["kind"] = "parameter";
      written.tensors.emplace("1", tensor);
      written.metadata.emplace("1", request.dump());
    }
    write_bytes(rank, ranks, sim::encoded(written));
  }
  void write_all(int ranks, const std::vector<float>& whole) const {
    for (int rank = 0; rank < ranks; ++rank) write(rank, ranks, whole);
  }
  void write_bytes(int rank, int ranks, const std::string& bytes) const {
    std::ofstream(file(rank, ranks), std::ios::binary) << bytes;
  }
  std::string bytes(int rank, int ranks) const {
    std::ifstream stream(file(rank, ranks), std::ios::binary);
    std::ostringstream text;
    text << stream.rdbuf();
    return text.str();
  }
  std::string file(int rank, int ranks) const {
    return fmt::format("{}/values-{:05}-of-{:05}.safetensors", folder_.path(), rank, ranks);
  }
  std::string path() const { return folder_.path(); }
  verify::ValuesOfFolder values() const { return verify::values_of_folder(path(), "DIR"); }
  /// Returns why the folder is refused; "" if it is not.
  std::string refusal() const {
    try {
      values();
    } catch (const sim::Error& error) {
      return error.refusal().code == "value_files" ? error.refusal().numbers : error.what();
    }
    return "";
  }

 private:
  test::TemporaryFolder folder_;
};

verify::ComparedValues compared(const Folder& some, const Folder& reference, const Folder* twin = nullptr) {
  const verify::ValuesOfFolder own = some.values(), right = reference.values();
  verify::JudgedBy judged{.coarsest = own.coarsest};
  verify::GlobalValues of_twin;
  if (twin != nullptr) judged.twin = &(of_twin = twin->values().values);
  return verify::compared_values(own.values, right.values, {}, judged);
}

TEST(ValueFiles, PartsOfRanksAreOneValue) {
  const Folder one("one"), two("two");
  one.write_all(1, {1, 2, 3, 4});
  two.write_all(2, {1, 2, 3, 4});
  EXPECT_EQ(two.values().ranks, 2);
  EXPECT_EQ(two.values().coarsest, sim::DType::f32);
  EXPECT_TRUE(compared(two, one).holds());
  two.write(1, 2, {1, 2, 6, 8});
  const verify::ComparedValues wrong = compared(two, one);
  ASSERT_EQ(wrong.wrong.size(), 1U);
  EXPECT_EQ(wrong.wrong.front().ranks, std::set<int>{1});
  EXPECT_EQ(wrong.wrong.front().what, "it is 2 times the right one");
}

TEST(ValueFiles, ErrorsOfAnF32AreRightAndThoseOfATwinSayMore) {
  const Folder one("one"), near("near"), far("far"), twin("twin");
  one.write_all(1, {1, 2, 3, 4});
  near.write_all(2, {1, 2, 3, 4 + 1.0F / 512});
  far.write_all(2, {1, 2, 3, 4 + 1.0F / 64});
  twin.write_all(1, {1, 2, 3, 4 + 1.0F / 65536});
  EXPECT_TRUE(compared(near, one).holds());
  EXPECT_FALSE(compared(far, one).holds());
  EXPECT_FALSE(compared(near, one, &twin).holds());
  twin.write_all(1, {1, 2, 3, 4 + 1.0F / 4096});
  EXPECT_TRUE(compared(near, one, &twin).holds());
  EXPECT_FALSE(compared(far, one, &twin).holds());
}

TEST(ValueFiles, WhatIsWrongWithAFolderIsToldAtOnce) {
  const Folder folder("values");
  EXPECT_EQ(folder.refusal(), folder.path() + ": no file is named values-N-of-M.safetensors");
  folder.write(0, 4, {1, 2, 3, 4});
  folder.write_bytes(2, 4, "no header");
  const std::string said = folder.refusal();
  EXPECT_TRUE(has(said, "values-00002-of-00004.safetensors: a header of ")) << said;
  EXPECT_TRUE(has(said, "rank 1 of 4 has no file; rank 3 of 4 has no file")) << said;
  folder.write_bytes(7, 4, "");
  EXPECT_TRUE(has(folder.refusal(), "values-00007-of-00004.safetensors is no file of a rank"));
  folder.write(0, 1, {1, 2, 3, 4});
  EXPECT_TRUE(has(folder.refusal(), "of 1 ranks, and others are of 4") ||
              has(folder.refusal(), "of 4 ranks, and others are of 1"))
      << folder.refusal();
  EXPECT_EQ(test::refusal_code([&] { verify::values_of_folder(folder.path() + "/none", "DIR"); }),
            "value_files");
}

TEST(ValueFiles, ATensorIsWhatItsMetadataSays) {
  const Folder folder("values");
  folder.write_all(1, {1, 2, 3, 4});
  sim::Safetensors file = sim::decoded(folder.bytes(0, 1), "the file");
  const auto refused_with = [&](const std::string& metadata) {
    file.metadata = {{"0", metadata}};
    folder.write_bytes(0, 1, sim::encoded(file));
    return folder.refusal();
  };
  const std::string right = file.metadata.at("0");
  EXPECT_EQ(refused_with(right), "");
  std::string fewer = right;
  fewer.replace(fewer.find("[\"f32\",0,4]"), 11, "[\"f32\",0,3]");
  EXPECT_TRUE(has(refused_with(fewer), "tensor 0 has 16 bytes of f32, and 12 of f32 in the metadata"));
  EXPECT_TRUE(has(refused_with(R"({"do":"end"})"), "tensor 0 is not what a rank publishes"));
  EXPECT_FALSE(refused_with("{}").empty());
  EXPECT_FALSE(refused_with("no JSON").empty());
}

RC_GTEST_PROP(ValueFiles, ADamagedFileIsRefusedOrComparedAndNothingElse, ()) {
  const Folder one("one"), two("two");
  one.write_all(1, {1, 2, 3, 4});
  two.write_all(2, {1, 2, 3, 4});
  std::string bytes = two.bytes(1, 2);
  const auto place = *rc::gen::inRange<std::size_t>(0, bytes.size());
  if (*rc::gen::arbitrary<bool>())
    bytes.resize(place);
  else
    bytes[place] = *rc::gen::arbitrary<char>();
  two.write_bytes(1, 2, bytes);
  const std::string refused = two.refusal();
  if (refused.empty())
    compared(two, one);
  else
    RC_ASSERT(has(refused, "values-00001-of-00002.safetensors") || has(refused, "no file"));
}

TEST(CompareCommand, TheFirstWrongValueIsToldWithItsRanks) {
  const test::RunResult right = test::run("compare scenarios/values/dp2 --against scenarios/values/one-rank");
  EXPECT_EQ(right.exit_code, 0) << right.out << right.err;
  EXPECT_TRUE(has(right.out, "verified: 1 of 1 folders compute what the reference computes")) << right.out;
  EXPECT_TRUE(has(right.out, "bound      that of f32; give --twin")) << right.out;
  const test::RunResult wrong = test::run(
      "compare scenarios/values/dp2 scenarios/values/dp2-without-mean --against "
      "scenarios/values/one-rank --twin scenarios/values/dp2");
  EXPECT_EQ(wrong.exit_code, 1) << wrong.out << wrong.err;
  EXPECT_TRUE(has(wrong.out, "each rank holds its own term: the mean over ranks 0, 1 is missing"))
      << wrong.out;
  EXPECT_TRUE(has(wrong.out, "bound      16 times the errors of scenarios/values/dp2")) << wrong.out;
}

TEST(CompareCommand, AParameterThatTheReferenceLacksIsTold) {
  const Folder one("one"), other("other");
  one.write(0, 1, {1, 2, 3, 4});
  other.write(0, 1, {1, 2, 3, 4}, "output");
  const std::string words = fmt::format("compare {} --against {}", other.path(), one.path());
  EXPECT_TRUE(has(test::run(words).out, "left out   1 value, which one run lacks"));
  const auto document = nlohmann::json::parse(test::run(words + " --format json").out);
  EXPECT_EQ(document["left_out"], nlohmann::json::array({"output"}));
}

TEST(CompareCommand, WhatIsMissingIsRefused) {
  for (const auto& [code, words] :
       {std::pair("missing_option", "compare"), std::pair("missing_option", "compare scenarios/values/dp2"),
        std::pair("value_files", "compare none --against scenarios/values/dp2")}) {
    const test::RunResult run = test::run(words);
    EXPECT_EQ(run.exit_code, 2) << words << run.out;
    EXPECT_TRUE(has(run.err, code)) << run.err;
  }
}

}  // namespace
