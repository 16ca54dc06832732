// Proves that the tables of the page can be sorted without a script: each button has an order of all rows,
// and a rule of the style sheet. Long parts are folded, and bytes have units with their exact number.

#include "verify/report/html_table.h"

#include <algorithm>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <limits>
#include <regex>
#include <set>

#include "tests/support/contains.h"
#include "verify/output/phrases.h"
#include "verify/report/replay_forms.h"

namespace {

using test::contains;
using verify::HtmlTable;
using verify::Sorts;

std::vector<std::smatch> matches(const std::string& text, const std::regex& pattern) {
  return {std::sregex_iterator(text.begin(), text.end(), pattern), std::sregex_iterator()};
}

/// Returns the places that the rows of a table have in the order of a button.
std::vector<int> places(const std::string& table, int button) {
  std::vector<int> found;
  for (const auto& place : matches(table, std::regex(fmt::format("--by{}:([0-9]+)", button))))
    found.push_back(std::stoi(place[1]));
  return found;
}

/// Returns what is wrong with the tables of a page that sort, or "". Each has a name of its own, one button
/// that is pressed, and for each button a rule of the style and every place once.
std::string wrong_order(const std::string& page) {
  static const std::regex table_text("<table class=\"sorts\"[^]*?</table>");
  static const std::regex button("<input type=\"radio\" name=\"([^\"]+)\" class=\"by([0-9]+)\"( checked)?");
  std::set<std::string> names;
  for (const auto& table : matches(page, table_text)) {
    const std::string text = table[0];
    const auto buttons = matches(text, button);
    if (buttons.empty()) return "a table without buttons";
    const std::string name = buttons.front()[1];
    if (!names.insert(name).second) return "two tables named " + name;
    const std::size_t begin = text.find("<tbody>"), end = text.find("</tbody>");
    const std::size_t rows = matches(text.substr(begin, end - begin), std::regex("<tr")).size();
    int pressed = 0;
    for (const auto& one : buttons) {
      if (one[1] != name) return "two names in the table " + name;
      pressed += one[3].matched ? 1 : 0;
      const std::string number = one[2];
      if (!contains(verify::report_style(),
                    fmt::format(".sorts:has(.by{0}:checked) tbody tr {{ order: var(--by{0}); }}", number)))
        return "no rule for button " + number;
      std::vector<int> order = places(text, std::stoi(number));
      std::sort(order.begin(), order.end());
      for (std::size_t place = 0; place < rows; ++place) {
        if (order.size() != rows || order[place] != static_cast<int>(place))
          return fmt::format("button {} of {} does not order its rows", number, name);
      }
    }
    if (pressed != 1) return fmt::format("{} buttons of {} are pressed", pressed, name);
  }
  return "";
}

HtmlTable table_of(const std::vector<std::int64_t>& numbers) {
  HtmlTable table("t", {{.title = "kind", .sorts = Sorts::as_added},
                        {.title = "bytes", .sorts = Sorts::largest_first, .is_number = true}});
  for (const std::int64_t number : numbers) table.add({{.html = "k"}, verify::byte_cell(number)});
  return table;
}

TEST(ReportTable, AButtonOrdersTheRowsByItsColumn) {
  HtmlTable table = table_of({5, 20'000, 5, 9'999});
  table.set_foot({{.html = "all"}, verify::byte_cell(30'009)});
  const std::string html = table.html();
  EXPECT_EQ(wrong_order(html), "");
  EXPECT_EQ(places(html, 0), (std::vector<int>{0, 1, 2, 3})) << "as the rows were added";
  EXPECT_EQ(places(html, 1), (std::vector<int>{2, 0, 3, 1}))
      << "the largest first; equal ones keep their order";
  EXPECT_TRUE(contains(
      html, "<label>kind<input type=\"radio\" name=\"t\" class=\"by0\" checked=\"checked\"/></label>"));
  EXPECT_TRUE(contains(html, "<td class=\"number\" title=\"20,000 bytes\">19.53 KiB</td>"));
  EXPECT_TRUE(contains(
      html, "<tfoot><tr><td>all</td><td class=\"number\" title=\"30,009 bytes\">29.31 KiB</td></tr>"));
}

TEST(ReportTable, FewRowsNeedNoButtons) {
  EXPECT_FALSE(contains(table_of({1, 2}).html(), "<input"));
  EXPECT_FALSE(contains(table_of({1, 2}).html(), "--by"));
  EXPECT_TRUE(contains(table_of({1, 2, 3}).html(), "<input"));
}

TEST(ReportTable, TheCheckerOfOrdersSeesWhatIsWrong) {
  const std::string good = table_of({1, 2, 3}).html();
  EXPECT_EQ(wrong_order(good), "");
  const auto with = [&](const std::string& old, const std::string& planted) {
    std::string bad = good;
    bad.replace(bad.find(old), old.size(), planted);
    return wrong_order(bad);
  };
  EXPECT_EQ(with("--by1:0", "--by1:1"), "button 1 of t does not order its rows");
  EXPECT_EQ(with("--by1:0", ""), "button 1 of t does not order its rows");
  EXPECT_EQ(with(" checked=\"checked\"", ""), "0 buttons of t are pressed");
  EXPECT_EQ(with("class=\"by1\"", "class=\"by1\" checked=\"checked\""), "2 buttons of t are pressed");
  EXPECT_EQ(with("class=\"by1\"", "class=\"by8\""), "no rule for button 8");
  EXPECT_EQ(with("name=\"t\" class=\"by1\"", "name=\"u\" class=\"by1\""), "two names in the table t");
  EXPECT_EQ(wrong_order(good + good), "two tables named t");
}

/// A report with every table: `kinds` kinds of groups, `stages` stages, and checks of which one fails.
verify::ScenarioReport report_of(int kinds, int stages, int checks, bool fails) {
  verify::ScenarioReport report;
  report.name = "a scenario";
  for (int i = 0; i < checks; ++i)
    report.checks.push_back({fmt::format("check {}", i), !fails || i != 1, "what was found"});
  for (int i = 0; i < kinds; ++i)
    report.ledger.push_back({.kind = fmt::format("kind {}", i),
                             .calls = 1'000'000,
                             .elements = i,
                             .bytes_inside = 1024 * 1024 * i,
                             .bytes_across = 7});
  report.memory.emplace();
  for (int i = 0; i < stages; ++i) report.memory->stages.push_back({.parameters = std::int64_t{1} << 30});
  return report;
}

TEST(ReportTable, EveryTableOfThePageHasItsOrders) {
  const std::string page =
      verify::report_html({report_of(3, 3, 3, false), report_of(4, 4, 4, true), report_of(3, 3, 3, false)});
  EXPECT_EQ(wrong_order(page), "");
  EXPECT_EQ(matches(page, std::regex("<table class=\"sorts\"")).size(), 3U * 3 + 1);
  EXPECT_TRUE(contains(page, "<td class=\"number\" title=\"1,073,741,824 bytes\">1.00 GiB</td>"));
  EXPECT_TRUE(contains(
      page,
      "<tfoot><tr><td>all</td><td></td><td class=\"number\">3,000,000</td><td class=\"number\">3</td>"
      "<td class=\"number\" title=\"3,145,728 bytes\">3.00 MiB</td><td class=\"number\">21 B</td>"));
  // Rows that failed come first by the button of the first column.
  const std::size_t second = page.find("name=\"s2-checks\"");
  EXPECT_EQ(places(page.substr(second, page.find("</table>", second) - second), 0),
            (std::vector<int>{1, 0, 2, 3}));
}

TEST(ReportTable, LongPartsAreFoldedAndFailuresAreNot) {
  constexpr int kMost = verify::kMostUnfolded;
  EXPECT_FALSE(contains(verify::report_html({report_of(kMost, kMost, kMost, false)}), "<details"));
  const std::string page = verify::report_html({report_of(kMost + 1, kMost + 1, kMost + 1, false)});
  EXPECT_TRUE(contains(page, "<details><summary>25 checks: 0 failed</summary>"));
  EXPECT_TRUE(contains(page, "<details><summary>25 stages: at most 1.00 GiB on a rank</summary>"));
  EXPECT_TRUE(
      contains(page, "<details><summary>25 kinds: 300.00 MiB inside a node, 175 B across nodes</summary>"));
  EXPECT_TRUE(contains(verify::report_html({report_of(3, 3, kMost + 1, true)}),
                       "<details open=\"open\"><summary>25 checks: 1 failed</summary>"));
}

TEST(ReportTable, BytesHaveUnits) {
  EXPECT_EQ(verify::byte_text(0), "0 B");
  EXPECT_EQ(verify::byte_text(9999), "9999 B");
  EXPECT_EQ(verify::byte_text(10'000), "9.77 KiB");
  EXPECT_EQ(verify::byte_text(std::int64_t{80} << 30), "80.00 GiB");
  EXPECT_EQ(verify::byte_text(std::numeric_limits<std::int64_t>::max()), "8.00 EiB");
  EXPECT_EQ(verify::byte_cell(9999).exact, "");
  EXPECT_EQ(verify::byte_cell(1'048'576).exact, "1,048,576 bytes");
  EXPECT_EQ(verify::grouped_digits(0), "0");
  EXPECT_EQ(verify::grouped_digits(999), "999");
  EXPECT_EQ(verify::grouped_digits(1000), "1,000");
  EXPECT_EQ(verify::grouped_digits(-123'456), "-123,456");
  EXPECT_EQ(verify::grouped_digits(-1'234'567), "-1,234,567");
}

}  // namespace
