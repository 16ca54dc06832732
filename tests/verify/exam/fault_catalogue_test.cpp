// A catalogue is read, what is wrong with it is refused at once, and each bug is caught, caught without what
// has to be named, or missed.

#include "verify/exam/fault_catalogue.h"

#include <filesystem>
#include <fmt/ranges.h>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <map>

#include "sim/base/refusals.h"
#include "tests/support/run.h"
#include "verify/properties/bench.h"
#include "verify/requests/scenario.h"

namespace {

using namespace verify;

/// Returns a bug of the row-parallel layer with other values of some keys; "" leaves a key out.
std::string bug(const std::string& name, std::map<std::string, std::string> values = {}) {
  values.insert({{"case", "row_parallel_linear"},
                 {"fault", "row_parallel_linear.forward:skip"},
                 {"property", "serial"},
                 {"names", "row_parallel_linear.forward"}});
  std::string text = "[" + name + "]\n";
  for (const auto& [key, value] : values)
    if (!value.empty()) text += key + " = " + value + "\n";
  return text + "\n";
}

std::vector<CatalogueEntry> entries_of(const std::string& text, const CaseOptions& options = {}) {
  const test::TemporaryFile file("bugs.ini", text);
  return read_catalogue({file.path()}, options, all_cases());
}

/// Returns the codes of all refusals, in order.
std::vector<std::string> catalogue_codes(const std::string& text, const CaseOptions& options = {}) {
  try {
    entries_of(text, options);
  } catch (const sim::Error& error) {
    std::vector<std::string> codes = {error.refusal().code};
    for (const sim::Refusal& refusal : sim::further_refusals(error)) codes.push_back(refusal.code);
    return codes;
  }
  return {};
}

sim::Refusal first_refusal(const std::string& text) {
  try {
    entries_of(text);
  } catch (const sim::Error& error) {
    return error.refusal();
  }
  return {};
}

std::vector<CatalogueRow> rows_of(const std::vector<CatalogueEntry>& entries, std::size_t threads = 1) {
  std::vector<Bench> benches(threads);
  return run_catalogue(entries, benches, [](std::size_t, std::size_t, const std::string&) { return true; });
}

using Codes = std::vector<std::string>;

TEST(FaultCatalogue, IsRead) {
  const std::vector<CatalogueEntry> entries =
      entries_of("# Source: a test\n" + bug("one", {{"source", "MLM#1446"}, {"dtype", "f32"}}) + bug("two"));
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].bug, "one");
  EXPECT_EQ(entries[0].source, "MLM#1446");
  EXPECT_EQ(entries[0].the_case().name(), "row_parallel_linear");
  EXPECT_EQ(entries[0].faults_text(), "row_parallel_linear.forward:skip");
  EXPECT_EQ(entries[0].request.dtypes, std::vector{sim::DType::f32});
  EXPECT_EQ(entries[1].source, "");
  EXPECT_EQ(entries[1].request.dtypes, std::vector{sim::DType::field});
  EXPECT_EQ(entries_of(bug("one") + bug("two"), {.faults = {"skip"}}).size(), 2U);
}

TEST(FaultCatalogue, AllThatIsWrongIsRefusedAtOnce) {
  EXPECT_EQ(catalogue_codes(bug("one")), Codes());
  EXPECT_EQ(catalogue_codes(bug("one", {{"names", ""}, {"fault", ""}})), Codes({"catalogue_incomplete"}));
  EXPECT_EQ(catalogue_codes("case = mlp\n[one\n" + bug("two") + bug("two") + "property\n"),
            Codes({"catalogue_syntax", "catalogue_syntax", "catalogue_syntax", "catalogue_syntax"}));
  EXPECT_EQ(
      catalogue_codes(bug("one", {{"proprety", "agree"}}) + bug("two", {{"case", "row_paralel_linear"}}) +
                      bug("three", {{"fault", "a.b:skipp"}}) + bug("four", {{"property", "seriel"}}) +
                      bug("five", {{"dtype", "f16"}}) + bug("six", {{"property", "special"}})),
      Codes({"catalogue_key", "unknown_case", "unknown_fault", "unknown_property", "unknown_dtype",
             "nothing_to_check"}));
  EXPECT_EQ(catalogue_codes(bug("one") + "case = mlp\n"), Codes({"catalogue_syntax"}));
  EXPECT_EQ(catalogue_codes("# Source: no bug\n"), Codes({"nothing_in_catalogue"}));
  EXPECT_EQ(catalogue_codes(bug("one"), {.cases = {"mlp"}}), Codes({"nothing_in_catalogue"}));
  EXPECT_EQ(catalogue_codes(bug("one"), {.faults = {"twice"}}), Codes({"nothing_in_catalogue"}));
}

TEST(FaultCatalogue, ARefusalNamesTheLineAndTheNearest) {
  const sim::Refusal key = first_refusal(bug("one") + "[two]\nproprety = serial\n");
  EXPECT_TRUE(key.option.ends_with("bugs.ini, line 8")) << key.option;
  EXPECT_EQ(key.hint, "property");
  const sim::Refusal fault =
      first_refusal("[one]\ncase = mlp\nfault = a.b:skipp\nproperty = serial\nnames = a\n");
  EXPECT_NE(fault.option.find("bugs.ini, line 3: "), std::string::npos) << fault.option;
  EXPECT_NE(fault.hint.find("skip"), std::string::npos) << fault.hint;
}

TEST(FaultCatalogue, ASiteThatTheCaseDoesNotReachIsRefused) {
  const auto entries = entries_of(bug("one", {{"fault", "row_parallel_linear.forwards:skip"}}));
  try {
    rows_of(entries);
    FAIL() << "it was not refused";
  } catch (const sim::Error& error) {
    EXPECT_EQ(error.refusal().code, "no_such_site");
    EXPECT_NE(error.refusal().option.find("[one]"), std::string::npos) << error.refusal().option;
    EXPECT_EQ(error.refusal().hint, "row_parallel_linear.forward:skip");
  }
}

TEST(FaultCatalogue, ABugIsCaughtUnnamedOrMissed) {
  const std::vector<CatalogueEntry> entries =
      entries_of(bug("caught") + bug("unnamed", {{"names", "a word that is never said"}}) +
                 bug("missed", {{"property", "agree"}, {"fault", "row_parallel_linear.forward:scale=2"}}) +
                 bug("not met", {{"fault", "row_parallel_linear.forward:skip@rank=900"}}));
  const std::vector<CatalogueRow> rows = rows_of(entries, 2);
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[0].verdict, FaultVerdict::caught) << rows[0].sentence;
  EXPECT_EQ(rows[1].verdict, FaultVerdict::unnamed) << rows[1].sentence;
  EXPECT_EQ(rows[2].verdict, FaultVerdict::missed) << rows[2].sentence;
  EXPECT_EQ(rows[2].sentence, "the property holds in all draws");
  EXPECT_EQ(rows[3].verdict, FaultVerdict::missed) << rows[3].sentence;
  EXPECT_EQ(rows[3].sentence, "no call of any draw had the fault");
  EXPECT_EQ(rows[0].sentence, rows_of(entries)[0].sentence) << "another number of threads";
}

TEST(FaultCatalogue, TheReadyFilesAreRead) {
  const std::vector<std::string> files = catalogue_files();
  EXPECT_GE(files.size(), 5U);
  EXPECT_GE(read_catalogue(files, {}, all_cases()).size(), 80U);
}

/// The table of the files in the manual of faults is that of the files.
TEST(FaultCatalogue, TheTableIsTheReadmes) {
  std::ifstream file("verify/faults/README.md");
  const std::string readme((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  for (const std::string& path : catalogue_files()) {
    std::map<std::string, int> by_property;
    int published = 0;
    const std::vector<CatalogueEntry> entries = read_catalogue({path}, {}, all_cases());
    for (const CatalogueEntry& entry : entries) {
      ++by_property[entry.property().name];
      published += entry.source.empty() ? 0 : 1;
    }
    std::vector<std::string> counts;
    for (const auto& [property, count] : by_property) counts.push_back(fmt::format("{} {}", count, property));
    const std::string row =
        fmt::format("| `{}` | {} | {} | {} |", std::filesystem::path(path).stem().string(), entries.size(),
                    published, fmt::join(counts, ", "));
    EXPECT_NE(readme.find("\n" + row + "\n"), std::string::npos) << "the README has no line\n" << row;
  }
}

}  // namespace
