#include "verify/report/html_table.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <numeric>
#include <utility>

#include "sim/base/check.h"
#include "verify/output/markup.h"
#include "verify/output/phrases.h"

namespace verify {

const char* report_style() {
  return
#include "page.css.inc"
      ;
}

std::string page_html(const std::string& title, const std::string& body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\" id=\"top\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'\"/>\n<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n<main>\n{}</main>\n</body>"
      "\n</html>\n",
      markup_text(title), report_style(), body);
}

HtmlColumn number_column(const char* title) {
  return {.title = title, .sorts = Sorts::largest_first, .is_number = true};
}

HtmlCell number_cell(std::int64_t number) { return {.html = grouped_digits(number), .key = number}; }

HtmlCell byte_cell(std::int64_t bytes) {
  const std::string text = byte_text(bytes);
  return {.html = text, .key = bytes, .exact = text.ends_with(" B") ? "" : grouped_digits(bytes) + " bytes"};
}

namespace {

bool sorts(const HtmlColumn& column) { return column.sorts != Sorts::no; }

}  // namespace

HtmlTable::HtmlTable(std::string name, std::vector<HtmlColumn> columns)
    : name_(std::move(name)), columns_(std::move(columns)) {
  const auto sorting = std::ranges::count_if(columns_, sorts);
  SIM_CHECK(static_cast<std::size_t>(sorting) <= kMostSortingColumns);
}

void HtmlTable::add(std::vector<HtmlCell> cells) {
  SIM_CHECK(cells.size() == columns_.size());
  rows_.push_back(std::move(cells));
}

bool HtmlTable::has_buttons() const {
  constexpr std::size_t kFewest = 3;  // rows that are worth sorting
  return rows_.size() >= kFewest && std::ranges::any_of(columns_, sorts);
}

std::string HtmlTable::head() const {
  std::string html;
  std::size_t button = 0;
  for (const HtmlColumn& column : columns_) {
    std::string title = markup_text(column.title);
    if (has_buttons() && sorts(column)) {
      title = fmt::format("<label>{}<input type=\"radio\" name=\"{}\" class=\"by{}\"{}/></label>", title,
                          name_, button++, column.sorts == Sorts::as_added ? " checked=\"checked\"" : "");
    }
    html += fmt::format("<th{}>{}</th>", column.is_number ? " class=\"number\"" : "", title);
  }
  return "<thead><tr>" + html + "</tr></thead>";
}

std::string HtmlTable::row(const std::vector<HtmlCell>& cells, const std::string& style) const {
  std::string html = "<tr" + (style.empty() ? "" : " style=\"" + style + "\"") + ">";
  for (std::size_t c = 0; c < cells.size(); ++c) {
    std::string classes = columns_[c].is_number ? "number" : "";
    if (!cells[c].classes.empty()) classes += (classes.empty() ? "" : " ") + cells[c].classes;
    html += "<td";
    if (!classes.empty()) html += " class=\"" + classes + "\"";
    if (!cells[c].exact.empty()) html += " title=\"" + markup_text(cells[c].exact) + "\"";
    html += ">" + cells[c].html + "</td>";
  }
  return html + "</tr>\n";
}

/// Returns the style of each row: its place in the order of every button.
std::vector<std::string> HtmlTable::styles() const {
  std::vector<std::string> styles(rows_.size());
  if (!has_buttons()) return styles;
  std::size_t button = 0;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    if (!sorts(columns_[c])) continue;
    std::vector<std::size_t> order(rows_.size());
    std::iota(order.begin(), order.end(), 0U);
    if (columns_[c].sorts == Sorts::largest_first)
      std::ranges::stable_sort(
          order, [&](std::size_t a, std::size_t b) { return rows_[a][c].key > rows_[b][c].key; });
    for (std::size_t place = 0; place < order.size(); ++place) {
      std::string& style = styles[order[place]];
      style += fmt::format("{}--by{}:{}", style.empty() ? "" : ";", button, place);
    }
    ++button;
  }
  return styles;
}

std::string HtmlTable::html() const {
  std::string html = "<div class=\"scroll\"><table";
  if (has_buttons()) html += fmt::format(" class=\"sorts\" style=\"--columns:{}\"", columns_.size());
  html += ">" + head() + "<tbody>\n";
  const std::vector<std::string> places = styles();
  for (std::size_t i = 0; i < rows_.size(); ++i) html += row(rows_[i], places[i]);
  html += "</tbody>";
  if (!foot_.empty()) html += "<tfoot>" + row(foot_, "") + "</tfoot>";
  return html + "</table></div>\n";
}

std::string folded(const std::string& html, std::int64_t rows, const std::string& summary, bool open) {
  if (rows <= kMostUnfolded) return html;
  return fmt::format("<details{}><summary>{}</summary>\n{}</details>\n", open ? " open=\"open\"" : "",
                     markup_text(summary), html);
}

}  // namespace verify
