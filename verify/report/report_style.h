#pragma once

/// The style sheet of the page of a replay. The page is light or dark as the reader's system is set, and has
/// one column of text; tables scroll horizontally in a narrow window. It loads no script, font or picture.

namespace verify {

const char* report_style();

}  // namespace verify
