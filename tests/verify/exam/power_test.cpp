// The power of the properties: how small a relative error each of them sees, in each dtype.

#include "verify/exam/power.h"

#include <algorithm>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <set>

#include "verify/cases/case_list.h"

namespace {

using verify::Power;
using verify::PowerRow;

Power power_of_case(const std::string& name, std::size_t threads = 1, int max_world = 4) {
  std::vector<verify::Bench> benches(threads);
  const verify::CampaignRequest request{.cases = {verify::find_case(name)}, .max_world = max_world};
  return power_of(request, benches, [](std::size_t, std::size_t, const std::string&) { return true; });
}

TEST(Power, TheFieldSeesAnyErrorAndMoreBitsSeeMore) {
  constexpr int kBitsOfBf16 = 8;
  const Power power = power_of_case("row_parallel_linear", 2);
  const auto row_of = [&](const std::string& site) {
    const auto row = std::find_if(power.rows.begin(), power.rows.end(), [&](const PowerRow& one) {
      return one.site == site && std::string(one.property->name) == "serial";
    });
    return row == power.rows.end() ? PowerRow() : *row;
  };
  for (const char* site : {"row_parallel_linear.forward", "tensor.output", "tensor.weight_grad"}) {
    const PowerRow row = row_of(site);
    ASSERT_TRUE(row.bits[0] && row.bits[1] && row.bits[2] && row.bits[3]) << site;
    EXPECT_EQ(*row.bits[0], verify::kMostBitsOfPower) << site;
    EXPECT_GT(*row.bits[1], *row.bits[2]) << site << ": f64 and f32";
    const bool is_main_grad = std::string(site) == "tensor.weight_grad";  // in f32 beside weights of bf16
    if (is_main_grad) {
      EXPECT_GT(*row.bits[3], kBitsOfBf16) << site;
    } else {
      EXPECT_GT(*row.bits[2], *row.bits[3]) << site << ": f32 and bf16";
    }
  }
  for (const PowerRow& row : power.rows) {
    EXPECT_EQ(row.bits[0].value_or(verify::kMostBitsOfPower), verify::kMostBitsOfPower)
        << row.site << " " << row.property->name;
  }
}

/// Returns "any", "23", or "20 to 23": the least and the largest k of the rows of `serial`.
std::string span_of(const Power& power, std::size_t dtype) {
  std::set<int> bits;
  for (const PowerRow& row : power.rows)
    if (std::string(row.property->name) == "serial" && row.bits[dtype]) bits.insert(*row.bits[dtype]);
  if (bits.empty()) return "";
  if (dtype == 0 && *bits.begin() == verify::kMostBitsOfPower) return "any";
  return bits.size() == 1 ? fmt::format("{}", *bits.begin())
                          : fmt::format("{} to {}", *bits.begin(), *bits.rbegin());
}

TEST(Power, TheTableOfTheManualIsMeasured) {
  std::ifstream file("verify/properties/README.md");
  const std::string readme((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  for (const char* name : {"row_parallel_linear", "vocab_parallel_cross_entropy", "parallel_norm"}) {
    const Power power = power_of_case(name, 2, 8);
    const std::int64_t rows = std::count_if(power.rows.begin(), power.rows.end(), [](const PowerRow& row) {
      return std::string(row.property->name) == "serial";
    });
    const std::string row = fmt::format("| `{}` | {} | {} | {} | {} | {} |", name, rows, span_of(power, 0),
                                        span_of(power, 1), span_of(power, 2), span_of(power, 3));
    EXPECT_NE(readme.find("\n" + row + "\n"), std::string::npos) << "the README has no line\n" << row;
  }
}

TEST(Power, IsTheSameOnAnyNumberOfThreads) {
  const Power one = power_of_case("parallel_dropout"), three = power_of_case("parallel_dropout", 3);
  ASSERT_EQ(one.rows.size(), three.rows.size());
  EXPECT_GT(one.rows.size(), 0U);
  for (std::size_t i = 0; i < one.rows.size(); ++i) {
    EXPECT_EQ(one.rows[i].site, three.rows[i].site);
    EXPECT_EQ(one.rows[i].bits, three.rows[i].bits) << one.rows[i].site;
  }
}

}  // namespace
