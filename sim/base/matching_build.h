#pragma once

/// What a program that includes these headers has to share with the libraries that it is linked with. Without
/// it, the program would crash, or a sanitizer would report errors that are none.
///
/// Errors  #error: the compiler lacks a header of C++20 (site.h), or _GLIBCXX_DEBUG, which gives
///         containers another form, is set here and not in the libraries, or there and not here. The linker
///         does not find a symbol whose name says what to do: the program is compiled with the address
///         sanitizer and the libraries are not, so that nobody tells the sanitizer of the stacks of ranks.

#include <version>

#if !defined(__cpp_lib_source_location)
#error "shardproof needs std::source_location: compile with GCC 11 or newer, or with Clang 16 or newer"
#endif

#if defined(_GLIBCXX_DEBUG) && !defined(SHARDPROOF_GLIBCXX_DEBUG)
#error \
    "shardproof was built without _GLIBCXX_DEBUG: leave it out, or build shardproof with it (CMAKE_CXX_FLAGS)"
#endif
#if !defined(_GLIBCXX_DEBUG) && defined(SHARDPROOF_GLIBCXX_DEBUG)
#error "shardproof was built with _GLIBCXX_DEBUG: set it here, or build shardproof without it"
#endif

#if defined(__SANITIZE_ADDRESS__)
namespace sim {
extern const char shardproof_has_no_address_sanitizer__build_it_with_SHARDPROOF_SANITIZE_address;
namespace {
[[gnu::used]] const char* const needs_address_sanitizer =
    &shardproof_has_no_address_sanitizer__build_it_with_SHARDPROOF_SANITIZE_address;
}
}  // namespace sim
#endif
