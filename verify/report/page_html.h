#pragma once

/// The frame of a page: one self-contained HTML file with the style sheet, which loads
/// nothing and runs no script.
///
/// Shapes  `title` is text, which is never read as markup; `body` is markup.

#include <string>

namespace verify {

// The style sheet of the page of a replay. The page is light or dark as the reader's system is set, and has
// one column of text; tables scroll horizontally in a narrow window. It loads no script, font or picture.

const char* report_style();

std::string page_html(const std::string& title, const std::string& body);

}  // namespace verify
