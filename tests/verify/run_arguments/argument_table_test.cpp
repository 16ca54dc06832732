// Proves that the table of Megatron's arguments is well-formed, and that a row which is not is found.

#include "verify/run_arguments/argument_table.h"

#include <gtest/gtest.h>
#include <string>
#include <string_view>

namespace {

using verify::ArgumentUse;

TEST(ArgumentTable, ARowSaysWhatAnArgumentIs) {
  const verify::ArgumentRow* row = verify::find_argument("muon-num-ns-steps");
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(row->use, ArgumentUse::not_modelled);
  EXPECT_EQ(row->unproved, verify::Unproved::training);
  EXPECT_EQ(row->only_with.front(), "optimizer");
  EXPECT_EQ(row->shape, verify::ArgumentShape::value);
  EXPECT_EQ(row->number, verify::NumberKind::whole);
  EXPECT_EQ(row->in_log_if_absent, "5");
  EXPECT_EQ(verify::find_argument("num-layerz"), nullptr);
  EXPECT_EQ(verify::shape_of_argument("swiglu"), verify::ArgumentShape::flag);
  EXPECT_EQ(verify::shape_of_argument("data-path"), verify::ArgumentShape::maybes);
  EXPECT_TRUE(verify::has_plain_words("recompute-modules"));
  EXPECT_FALSE(verify::has_plain_words("tokenizer-special-tokens"));
  EXPECT_TRUE(verify::is_known_with_underscores("override-opt_param-scheduler"));
  EXPECT_FALSE(verify::is_known_with_underscores("num_layers"));
  EXPECT_EQ(verify::find_argument("override-opt-param-scheduler")->use, ArgumentUse::without_effect);
}

TEST(ArgumentTable, ALogHasOtherNames) {
  const verify::LogName* bias = verify::find_log_name("add-bias-linear");
  ASSERT_NE(bias, nullptr);
  EXPECT_EQ(bias->argument, "disable-bias-linear");
  EXPECT_TRUE(bias->is_negated);
  EXPECT_FALSE(verify::find_log_name("fp8")->is_negated);
  EXPECT_EQ(verify::find_log_name("fp8-format"), nullptr);
}

/// A value that a log prints for an argument that is used is always a value.
TEST(ArgumentTable, OnlyArgumentsThatAreNotModelledHaveADefault) {
  for (const std::string& name : verify::argument_names()) {
    const verify::ArgumentRow* row = verify::find_argument(name);
    EXPECT_TRUE(row->use == ArgumentUse::not_modelled || row->in_log_if_absent.empty()) << name;
    // The arguments of YaRN are named, and nothing is left out for them.
    const bool is_named = row->sentence.starts_with("the frequencies and the scale of YaRN");
    EXPECT_EQ(row->use == ArgumentUse::not_modelled && !is_named, row->unproved != verify::Unproved::nothing)
        << name;
  }
}

constexpr std::string_view kPurposes =
    "purpose\tuse\tonly_with\tsentence\nsize\tused\t-\tit is a size\n# a comment\nmode\tmemory\tfast "
    "slow\tit "
    "is slow\n";
constexpr std::string_view kArguments =
    "name\tpurpose\twords\tdefault\tin_logs\nfast\tmode\tflag\t-\t-\nslow\tmode\twhole\t3\t!quick\n";

std::size_t rows(const std::string& arguments, const std::string& purposes) {
  return verify::read_argument_rows(std::string(kArguments) + arguments, std::string(kPurposes) + purposes)
      .size();
}

TEST(ArgumentTableDeathTest, ARowThatIsNotWellFormedIsAMistake) {
  EXPECT_EQ(rows("wide\tsize\tany\t-\t-\n", ""), 3U);
  EXPECT_DEATH(rows("wide\tsize\tany\t-\n", ""), "CHECK");            // a cell is missing
  EXPECT_DEATH(rows("slow\tsize\tany\t-\t-\n", ""), "CHECK");         // a name that stands twice
  EXPECT_DEATH(rows("wide\tshape\tany\t-\t-\n", ""), "CHECK");        // no such purpose
  EXPECT_DEATH(rows("wide\tsize\tsome\t-\t-\n", ""), "CHECK");        // no such number of words
  EXPECT_DEATH(rows("", "size\tused\t-\tit is one\n"), "CHECK");      // a purpose that stands twice
  EXPECT_DEATH(rows("", "more\tmaybe\t-\tit is one\n"), "CHECK");     // no such use
  EXPECT_DEATH(rows("", "more\tused\tsloww\tit is one\n"), "CHECK");  // beside an argument that there is not
}

}  // namespace
