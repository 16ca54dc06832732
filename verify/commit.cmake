# Writes a source that says from which commit the program is built, unless it says so already.
#
#   cmake -D SOURCE=checkout -D OUT=commit.cpp -D DEPFILE=commit.d -P verify/commit.cmake
#
# The commit is unknown without git, in a tarball, and where the sources lie inside of another repository. It has changes if a
# tracked file of the program differs from it. DEPFILE names what can change the answer: these files, and the log of HEAD.
cmake_minimum_required(VERSION 3.25)
set(paths CMakeLists.txt sim gpu verify ":(exclude)*.md")

# ask(RESULT git's words...): what git says, or nothing.
function(ask result)
  execute_process(COMMAND git -c safe.directory=${SOURCE} -c core.quotePath=off --no-optional-locks -C ${SOURCE} ${ARGN}
    OUTPUT_VARIABLE words OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE code)
  if(NOT code EQUAL 0)
    set(words "")
  endif()
  set(${result} "${words}" PARENT_SCOPE)
endfunction()

set(commit "")
set(has_changes false)
set(watched "")
ask(folder rev-parse --show-cdup)  # nothing at the top of a checkout
ask(head rev-parse --short=12 HEAD)
if(head AND NOT folder)
  set(commit ${head})
  ask(changes status --porcelain --untracked-files=no -- ${paths})
  if(changes)
    set(has_changes true)
  endif()
  ask(tracked ls-files -- ${paths})
  string(REPLACE "\n" ";" tracked "${tracked}")
  foreach(file IN LISTS tracked)
    list(APPEND watched ${SOURCE}/${file})
  endforeach()
  foreach(name HEAD logs/HEAD)
    ask(file rev-parse --git-path ${name})
    cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY ${SOURCE})
    if(EXISTS ${file})
      list(APPEND watched ${file})
    endif()
  endforeach()
endif()

list(TRANSFORM watched REPLACE " " "\\\\ ")
string(REPLACE " " "\\ " target "${OUT}")
list(JOIN watched " \\\n  " watched)
file(WRITE ${DEPFILE} "${target}: ${watched}\n")
file(CONFIGURE OUTPUT ${OUT} CONTENT "// Written by verify/commit.cmake.
#include \"verify/program_build.h\"

verify::Commit verify::commit_of_program() { return {.id = \"${commit}\", .has_changes = ${has_changes}}; }
")
