# What all targets of the project share. Everything is PRIVATE: users never inherit our flags.

set(headwise_warnings
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wold-style-cast
    -Wnon-virtual-dtor)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 sees overlapping copies inside std::string where there are none (GCC bug 105651).
  list(APPEND headwise_warnings -Wno-restrict)
endif()

function(headwise_configure_target target)
  target_compile_features(${target} PRIVATE cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang")
    return()
  endif()

  # A compiler that fuses a·b + c on some CPUs only would change bits from machine to machine.
  target_compile_options(${target} PRIVATE -ffp-contract=off ${headwise_warnings})
  if(HEADWISE_WARNINGS_AS_ERRORS)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(HEADWISE_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${HEADWISE_SANITIZE}
                           -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(${target} PRIVATE -fsanitize=${HEADWISE_SANITIZE})
  endif()
endfunction()

# A library on top of the core, of one folder of src/: headwise_add_library(io file.cc…) makes
# headwise_io, known as headwise::io.
function(headwise_add_library name)
  add_library(headwise_${name} ${ARGN})
  add_library(headwise::${name} ALIAS headwise_${name})
  headwise_configure_target(headwise_${name})
  set_target_properties(headwise_${name} PROPERTIES EXPORT_NAME ${name}
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  target_include_directories(headwise_${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(headwise_${name} PUBLIC headwise::headwise)
endfunction()
