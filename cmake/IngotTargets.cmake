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

# Tests are half of the build, and most of their running time is not in their own code. Without optimization they compile
# in two thirds of the time. With a sanitizer, which watches each access of unoptimized code, they would run for minutes.
if(NOT INGOT_SANITIZE)
  set(INGOT_TEST_OPTIONS $<$<CONFIG:Release>:-O0>)
endif()

# Precompiled headers save a third of the time of a clean build. Each file still includes all that it uses: clang's
# presets (thread-safety and fuzz) build without them. Torch's targets have their own precompiled header
# (IngotTorch.cmake).
option(INGOT_PRECOMPILE_HEADERS "Precompile the headers of the standard library and of packages" ON)
if(INGOT_PRECOMPILE_HEADERS AND NOT INGOT_KERNELS_ONLY)
  set(INGOT_PCH_HEADERS
      <algorithm> <atomic> <chrono> <condition_variable> <cstdint> <filesystem> <fstream> <functional> <map> <memory>
      <mutex> <optional> <set> <span> <sstream> <string> <string_view> <thread> <unordered_map> <utility> <vector>
      <absl/status/status.h> <absl/status/statusor.h> <absl/strings/str_cat.h> <boost/json.hpp>
      <google/protobuf/message.h> <google/protobuf/map.h> <google/protobuf/repeated_field.h> <spdlog/spdlog.h>)
  set(INGOT_PCH_TEST_HEADERS <gmock/gmock.h> <gtest/gtest.h>)
  set(INGOT_PCH_LIBRARIES absl::statusor absl::strings Boost::json protobuf::libprotobuf spdlog::spdlog)
  add_library(ingot_pch OBJECT ${CMAKE_SOURCE_DIR}/cmake/empty.cc)
  target_link_libraries(ingot_pch PRIVATE ${INGOT_PCH_LIBRARIES} ingot_warnings)
  target_precompile_headers(ingot_pch PRIVATE ${INGOT_PCH_HEADERS})
  add_library(ingot_test_pch OBJECT ${CMAKE_SOURCE_DIR}/cmake/empty.cc)
  target_link_libraries(ingot_test_pch PRIVATE ${INGOT_PCH_LIBRARIES} GTest::gmock ingot_warnings)
  target_compile_options(ingot_test_pch PRIVATE ${INGOT_TEST_OPTIONS})
  target_precompile_headers(ingot_test_pch PRIVATE ${INGOT_PCH_HEADERS} ${INGOT_PCH_TEST_HEADERS})
endif()

# GCC rejects a precompiled header in a file that is compiled with other flags, such as -fPIE instead of -fPIC, which
# CMake uses for programs.
function(ingot_compile_as_library target)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE")
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
endfunction()

function(ingot_use_pch target pch)
  if(NOT TARGET ${pch})
    return()
  endif()
  ingot_compile_as_library(${target})
  target_precompile_headers(${target} REUSE_FROM ${pch})
endfunction()

# ingot_use_unity(TARGET MOST): compiles up to MOST source files of a target together. Most of a file's time goes into its
# headers, so a build from nothing takes half as long. The names in a file's unnamed namespace may then meet those of
# another file. If they do, a test gets a namespace of its own (its file's name), and a source is compiled apart.
option(INGOT_UNITY "Compile several source files of a target together" OFF)
function(ingot_use_unity target most)
  if(INGOT_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${most})
    if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
      # GCC takes every file but the group's own for a header.
      target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
    endif()
  endif()
endfunction()

# ingot_compile_apart(a.cc ...): files of the current folder that are never compiled together with others.
function(ingot_compile_apart)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# ingot_library(NAME SRCS a.cc ... DEPS target ... [PRIVATE_DEPS target ...] [TORCH | PLAIN])
# DEPS are public: the headers include them. TORCH adds LibTorch and its precompiled headers. PLAIN takes no precompiled
# headers: it is for a target that uses no package or has its own flags.
function(ingot_library name)
  cmake_parse_arguments(arg "TORCH;PLAIN" "" "SRCS;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(${name} STATIC ${arg_SRCS})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR}/src ${CMAKE_BINARY_DIR}/gen)
  target_link_libraries(${name} PUBLIC ${arg_DEPS} PRIVATE ${arg_PRIVATE_DEPS} ingot_warnings)
  if(arg_TORCH)
    target_link_libraries(${name} PUBLIC ingot_torch)
    ingot_use_torch_pch(${name})
  elseif(NOT arg_PLAIN)
    ingot_use_pch(${name} ingot_pch)
  endif()
  if(NOT arg_PLAIN)
    ingot_use_unity(${name} 8)
  endif()
endfunction()

# test_paths.h has INGOT_SOURCE_DIR. A definition on the command line would be part of every test's key in the compiler
# cache, and a second clone would compile all tests again.
set(INGOT_TEST_PATHS ${CMAKE_BINARY_DIR}/test_paths)
configure_file(${CMAKE_SOURCE_DIR}/cmake/test_paths.h.in ${INGOT_TEST_PATHS}/test_paths.h @ONLY)

# ingot_test(NAME SRCS a_test.cc ... DEPS target ... [TORCH | PLAIN] [APART] [LABELS label ...] [TIMEOUT seconds])
# APART compiles each file alone.
# Default label: unit. `make test` runs every label but `slow`; `make check` runs all. Sanitizers get five times TIMEOUT.
function(ingot_test name)
  cmake_parse_arguments(arg "TORCH;PLAIN;APART" "TIMEOUT" "SRCS;DEPS;LABELS" ${ARGN})
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 400)
  endif()
  if(INGOT_SANITIZE)
    math(EXPR arg_TIMEOUT "5 * ${arg_TIMEOUT}")
  endif()
  add_executable(${name} ${arg_SRCS})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests ${INGOT_TEST_PATHS})
  target_link_libraries(${name} PRIVATE ${arg_DEPS} ingot_warnings GTest::gmock GTest::gtest GTest::gtest_main)
  if(arg_TORCH)
    target_link_libraries(${name} PRIVATE ingot_torch)
    ingot_use_torch_pch(${name} TEST)
  elseif(NOT arg_PLAIN)
    ingot_use_pch(${name} ingot_test_pch)
  endif()
  if(NOT arg_PLAIN AND NOT arg_APART)
    ingot_use_unity(${name} 24)
  endif()
  if(arg_PLAIN)  # the kernels' references and emulations, whose time is in the tests' own code
    target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  else()
    target_compile_options(${name} PRIVATE ${INGOT_TEST_OPTIONS})
  endif()
  # One ctest entry per binary: starting a process that links LibTorch costs more than most tests in it.
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT})
endfunction()

# ingot_slow_tests(NAME test ... [TRIALS test ...]): these gtest cases of NAME run in `make check` only, as NAME_slow. A name may have wildcards.
# TRIALS: cases that NAME runs too, with fewer trials (tests/trials.h); the variable INGOT_SLOW_TESTS tells them to make all.
function(ingot_slow_tests name)
  cmake_parse_arguments(arg "" "" "TRIALS" ${ARGN})
  list(JOIN arg_UNPARSED_ARGUMENTS ":" cases)
  set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT "GTEST_FILTER=-${cases}")
  ingot_all_trials(${name} ${arg_UNPARSED_ARGUMENTS} ${arg_TRIALS})
endfunction()

# ingot_all_trials(NAME test ...): NAME_slow alone, for cases that NAME runs too, with fewer trials.
function(ingot_all_trials name)
  list(JOIN ARGN ":" cases)
  add_test(NAME ${name}_slow COMMAND ${name} --gtest_filter=${cases})
  set_tests_properties(${name}_slow PROPERTIES LABELS slow TIMEOUT 900 ENVIRONMENT "INGOT_SLOW_TESTS=1")
endfunction()
