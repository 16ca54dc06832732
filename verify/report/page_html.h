#pragma once

/// The frame of a page: one self-contained HTML file with the style sheet of report_style.h, which loads
/// nothing and runs no script.
///
/// Shapes  `title` is text, which is never read as markup; `body` is markup.

#include <string>

namespace verify {

std::string page_html(const std::string& title, const std::string& body);

}  // namespace verify
