# Looks for NCCL in NCCL_ROOT, the CUDA toolkit, the system and a Python wheel (whose library has a version in
# its name). Sets NCCL_FOUND, NCCL_VERSION, NCCL_INCLUDE_DIR and NCCL_LIBRARY.
set(nccl_hints ${CUDAToolkit_ROOT} ${CUDAToolkit_LIBRARY_ROOT} ${CUDAToolkit_TARGET_DIR})
foreach(folder IN LISTS CUDAToolkit_INCLUDE_DIRS)
  list(APPEND nccl_hints ${folder}/..)
endforeach()
find_package(Python3 QUIET COMPONENTS Interpreter)
if(Python3_Interpreter_FOUND)
  execute_process(COMMAND ${Python3_EXECUTABLE} -c "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    OUTPUT_VARIABLE site_packages OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(site_packages)
    list(APPEND nccl_hints ${site_packages}/nvidia/nccl)
  endif()
endif()
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${NCCL_ROOT} ENV NCCL_ROOT ${nccl_hints} PATH_SUFFIXES include)
# The library beside that header is preferred to any other.
get_filename_component(nccl_of_header "${NCCL_INCLUDE_DIR}" DIRECTORY)
find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ${nccl_of_header} ${NCCL_ROOT} ENV NCCL_ROOT ${nccl_hints}
  PATH_SUFFIXES lib lib64)
if(NCCL_INCLUDE_DIR)
  file(STRINGS ${NCCL_INCLUDE_DIR}/nccl.h nccl_numbers REGEX "^#define NCCL_(MAJOR|MINOR|PATCH) +[0-9]+")
  string(REGEX REPLACE "[^0-9;]" "" nccl_numbers "${nccl_numbers}")
  list(JOIN nccl_numbers "." NCCL_VERSION)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(NCCL REQUIRED_VARS NCCL_LIBRARY NCCL_INCLUDE_DIR VERSION_VAR NCCL_VERSION)
mark_as_advanced(NCCL_INCLUDE_DIR NCCL_LIBRARY)
