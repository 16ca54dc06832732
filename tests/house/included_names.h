#pragma once

/// The rule that a source includes what it names. Builds with SHARDPROOF_UNITY compile several sources
/// together, where a source may have a name from the includes of its neighbour and would not compile alone.
///
/// Calls   names_not_included() reads the names that headers of sim, gpu and verify declare in namespaces:
///         types, aliases, enumerators, constants, functions, macros and the namespaces themselves. If
///         exactly one header declares a name, a source of these folders that uses it has to include that
///         header, by itself or through others. A name that several headers declare is not judged, and
///         neither is a name that the source, or what it includes, also gives to something of its own, such
///         as a parameter. The first include of a .cpp file is the header of its name.
/// Exact   names of libraries are not judged: precompiled headers bring many of them to every source, and
///         `./shardproof lint` compiles without.

#include <string>
#include <vector>

#include "tests/house/source_files.h"

namespace test {

/// Returns one line for each source and name: the file, the name, and the header that declares it.
std::vector<std::string> names_not_included(const std::vector<SourceFile>& files);

}  // namespace test
