#pragma once

/// The style sheet of the page of a replay: light and dark as the reader's system is set, one column of text,
/// tables that scroll inside themselves where the window is narrow. No script, no font and no picture from
/// elsewhere.

namespace verify {

const char* report_style();

}  // namespace verify
