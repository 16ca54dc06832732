#pragma once

/// The frame of a page, its tables, and the folding of long parts. The page loads nothing and has no script,
/// so the reader's browser sorts with what HTML and CSS have: the title of a column that sorts is a radio
/// button, every row carries its place in the order of each such column, and the style sheet orders the rows
/// by the button that is pressed.
///
///   HtmlTable table("s1-ledger", {{.title = "kind", .sorts = Sorts::as_added},
///                                 {.title = "calls", .sorts = Sorts::largest_first, .is_number = true}});
///   table.add({{.html = "tp"}, number_cell(48)});
///
/// Shapes  A column sorts in one direction only: the rows as they were added, which is how the table begins,
///         or the largest key first. Rows of equal keys keep their order. The foot stays where it is. A table
///         of fewer than three rows has no buttons.
/// Exact   The document keeps its order, which is what a screen reader reads and a browser without :has()
///         and subgrid shows. Such a browser shows no buttons.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace verify {

/// The style sheet of a page (page.css). The page is light or dark as the reader's system is set, and has one
/// column of text; tables scroll horizontally in a narrow window.
const char* report_style();

/// Returns one self-contained HTML file. `title` is text, which is never read as markup; `body` is markup.
std::string page_html(const std::string& title, const std::string& body);

/// At most this many columns can sort: the style sheet has a rule for each.
inline constexpr std::size_t kMostSortingColumns = 8;

/// A part with more rows than this is folded.
inline constexpr std::int64_t kMostUnfolded = 24;

enum class Sorts : std::uint8_t { no, as_added, largest_first };

struct HtmlColumn {
  std::string title;
  Sorts sorts = Sorts::no;
  bool is_number = false;  // aligned to the right
};

/// The column of a number, by which the table sorts.
HtmlColumn number_column(const char* title);

struct HtmlCell {
  std::string html;
  std::int64_t key = 0;      // for Sorts::largest_first
  std::string classes = {};  // beside "number"
  std::string exact = {};    // what the cell rounds; shown where the pointer rests
};

/// The cell of a number, with its digits in groups of three.
HtmlCell number_cell(std::int64_t number);
/// The cell of a number of bytes, in powers of 1024. The exact number is shown where the pointer rests.
HtmlCell byte_cell(std::int64_t bytes);

class HtmlTable {
 public:
  /// `name` is one of its own on the page: letters, digits and "-".
  HtmlTable(std::string name, std::vector<HtmlColumn> columns);
  void add(std::vector<HtmlCell> cells);
  void set_foot(std::vector<HtmlCell> cells) { foot_ = std::move(cells); }
  std::string html() const;

 private:
  bool has_buttons() const;
  std::string head() const;
  std::string row(const std::vector<HtmlCell>& cells, const std::string& style) const;
  std::vector<std::string> styles() const;

  std::string name_;
  std::vector<HtmlColumn> columns_;
  std::vector<std::vector<HtmlCell>> rows_;
  std::vector<HtmlCell> foot_;
};

/// Returns a part of the page; after a line `summary` that opens it if it has more than kMostUnfolded rows.
/// `open`: it is open at first.
std::string folded(const std::string& html, std::int64_t rows, const std::string& summary, bool open = false);

}  // namespace verify
