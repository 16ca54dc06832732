#pragma once

/// The list form of --pipeline-model-parallel-layout. Megatron also takes a list of lists of layer names,
/// which is written as JSON here: [["embedding", "decoder"], ["decoder", "loss"]].
///
/// Errors  layout_syntax: a layout in list form that is not a list of lists of layer names.

#include <string>

namespace verify {

/// Converts a layout in list form to the string form. Other text is returned as it is.
std::string layout_string(const std::string& text);

}  // namespace verify
