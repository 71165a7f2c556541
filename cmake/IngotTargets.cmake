# One library per folder (or a few, with honest link lists), tests that mirror the folders.
include(GoogleTest)

add_library(ingot_warnings INTERFACE)
target_compile_options(ingot_warnings INTERFACE -Wall -Wextra -Wpedantic -Wno-sign-compare -Werror)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # libstdc++ 12's stable_sort uses what C++17 deprecated; Debian's abseil was mangled by GCC 12.
  target_compile_options(ingot_warnings INTERFACE -Wthread-safety -Wno-deprecated-declarations -fclang-abi-compat=17)
else()
  # GCC 12 reports these inside libstdc++ and abseil at -O2, for code that is correct.
  target_compile_options(ingot_warnings INTERFACE -Wno-restrict -Wno-maybe-uninitialized -Wno-dangling-pointer
                         -Wno-stringop-overflow -Wno-array-bounds -Wno-stringop-overread)
endif()

# ingot_library(NAME SRCS a.cc ... DEPS target ... [PRIVATE_DEPS target ...] [TORCH])
# DEPS are public: what the headers include. TORCH adds LibTorch and its precompiled headers.
function(ingot_library name)
  cmake_parse_arguments(arg "TORCH" "" "SRCS;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(${name} STATIC ${arg_SRCS})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR}/src ${CMAKE_BINARY_DIR}/gen)
  target_link_libraries(${name} PUBLIC ${arg_DEPS} PRIVATE ${arg_PRIVATE_DEPS} ingot_warnings)
  if(arg_TORCH)
    target_link_libraries(${name} PUBLIC ingot_torch)
    ingot_use_torch_pch(${name})
  endif()
endfunction()

# ingot_test(NAME SRCS a_test.cc ... DEPS target ... [TORCH] [LABELS label ...] [TIMEOUT seconds])
# Default label: unit. `make test` runs every label but `slow`; `make check` runs all. Sanitizers get five times TIMEOUT.
function(ingot_test name)
  cmake_parse_arguments(arg "TORCH" "TIMEOUT" "SRCS;DEPS;LABELS" ${ARGN})
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  if(INGOT_SANITIZE)
    math(EXPR arg_TIMEOUT "5 * ${arg_TIMEOUT}")
  endif()
  add_executable(${name} ${arg_SRCS})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE ${arg_DEPS} ingot_warnings GTest::gmock GTest::gtest GTest::gtest_main)
  if(arg_TORCH)
    target_link_libraries(${name} PRIVATE ingot_torch)
    ingot_use_torch_pch(${name})
  endif()
  target_compile_definitions(${name} PRIVATE INGOT_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  # One ctest entry per binary: starting a process that links LibTorch costs more than most tests in it.
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT})
endfunction()
