# Searches the PTX of the kernels for float arithmetic that differs from the single, once-rounded operation that was written:
# approximate functions, flushing to zero, and additions and multiplications without .rn, which the assembler may fuse.
#
#   cmake -DNVCC=... -DOPTIONS=... -DKERNELS=a.cu;b.cu -DSOURCE=... -DBINARY=... -P check_assembly.cmake

# Instructions that move, compare, select or change a sign do not round; conversions round to the nearest.
set(exact "^(ld|st|mov|setp|set|selp|neg|abs|min|max|testp|copysign|cvta)\\.")
set(rounded "^(add|sub|mul|fma|div|rcp|sqrt)\\.rn\\.f(32|64)$")
set(converted "^cvt\\.(rn\\.f(32|64)\\.[a-z0-9]+|rzi\\.[su](32|64)\\.f(32|64)|f64\\.f32)$")

function(find_inexact text found seen)
  string(REGEX MATCHALL "[a-z0-9_]+(\\.[a-z0-9:_]+)*\\.f(32|64)(\\.[a-z0-9_]+)*" operations "${text}")
  set(seen_count 0)
  set(bad)
  foreach(operation IN LISTS operations)
    if(operation MATCHES "\\.(approx|ftz|full|sat)")
      list(APPEND bad ${operation})
    elseif(operation MATCHES "${rounded}")
      math(EXPR seen_count "${seen_count} + 1")
    elseif(NOT operation MATCHES "${exact}" AND NOT operation MATCHES "${converted}")
      list(APPEND bad ${operation})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES bad)
  set(${found} "${bad}" PARENT_SCOPE)
  set(${seen} ${seen_count} PARENT_SCOPE)
endfunction()

# The check itself is checked on planted defects.
foreach(planted "ex2.approx.f32 %f1, %f2;" "add.f32 %f1, %f2, %f3;" "mul.f64 %fd1, %fd2, %fd3;" "div.full.f32 %f1, %f2, %f3;"
    "fma.rn.ftz.f32 %f1, %f2, %f3, %f4;" "mad.rn.f32 %f1, %f2, %f3, %f4;" "fma.rz.f64 %fd1, %fd2, %fd3, %fd4;"
    "cvt.rz.f32.f64 %f1, %fd1;" "sqrt.approx.ftz.f32 %f1, %f2;" "rsqrt.approx.f64 %fd1, %fd2;")
  find_inexact("\t${planted}\n" found seen)
  if(NOT found)
    message(FATAL_ERROR "the check does not see a planted '${planted}'")
  endif()
endforeach()

list(GET KERNELS 0 first)
foreach(kernel IN LISTS KERNELS)
  get_filename_component(name ${kernel} NAME_WE)
  set(assembly ${BINARY}/assembly-${name}.ptx)
  execute_process(COMMAND ${NVCC} -std=c++20 ${OPTIONS} -O3 -arch=compute_80 -ptx -I${SOURCE} ${SOURCE}/${kernel} -o ${assembly}
    RESULT_VARIABLE failed ERROR_VARIABLE words)
  if(failed)
    message(FATAL_ERROR "${kernel}: ${words}")
  endif()
  file(READ ${assembly} text)
  string(REPLACE ";" "\n" text "${text}")
  find_inexact("${text}" found seen)
  if(found)
    message(FATAL_ERROR "${kernel}: not rounded once as written: ${found}")
  endif()
  if(seen EQUAL 0)
    message(FATAL_ERROR "${kernel}: no arithmetic of floats: the check looks at the wrong thing")
  endif()
  message(STATUS "${kernel}: ${seen} operations of floats, each rounded once")
endforeach()
