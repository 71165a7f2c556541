# LibTorch from the pip wheel: `ingot_torch` links only torch_cpu and c10, so that a machine without CUDA needs no CUDA
# library except the two small ones that the wheel's libtorch_cpu.so names.
set(INGOT_TORCH_DIR "" CACHE PATH "An installed torch 2.11 (the folder with include/ and lib/); empty: .venv")
set(_torch ${INGOT_TORCH_DIR})
if(NOT _torch)
  if(DEFINED ENV{INGOT_TORCH_DIR})
    set(_torch $ENV{INGOT_TORCH_DIR})
  else()
    file(GLOB _torch ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch)
  endif()
endif()
if(NOT EXISTS ${_torch}/lib/libtorch_cpu.so)
  message(FATAL_ERROR "no LibTorch at '${_torch}': run scripts/setup.sh, or set INGOT_TORCH_DIR to an installed torch 2.11")
endif()
get_filename_component(_site ${_torch} DIRECTORY)
set(INGOT_TORCH_LIBS ${_torch}/lib)

# torch/include has its own fmt, protobuf and pybind11, which would shadow the system's. Give the compiler a folder of
# links to everything else.
set(_inc ${CMAKE_BINARY_DIR}/torch_include)
file(MAKE_DIRECTORY ${_inc})
file(GLOB _entries RELATIVE ${_torch}/include ${_torch}/include/*)
foreach(_entry ${_entries})
  if(NOT _entry MATCHES "^(fmt|google|pybind11)$")
    file(CREATE_LINK ${_torch}/include/${_entry} ${_inc}/${_entry} SYMBOLIC)
  endif()
endforeach()

add_library(ingot_torch INTERFACE)
target_include_directories(ingot_torch SYSTEM INTERFACE ${_inc})
# Protobuf and gRPC must come before torch on the link line: libtorch_cpu.so exports a few Protobuf symbols.
if(TARGET protobuf::libprotobuf)
  target_link_libraries(ingot_torch INTERFACE protobuf::libprotobuf)
endif()
target_link_libraries(ingot_torch INTERFACE ${_torch}/lib/libtorch_cpu.so ${_torch}/lib/libc10.so)
target_link_options(ingot_torch INTERFACE
  -Wl,-rpath,${_torch}/lib -Wl,-rpath,${_site}/nvidia/cu13/lib
  -Wl,-rpath-link,${_torch}/lib -Wl,-rpath-link,${_site}/nvidia/cu13/lib)

# One precompiled header for all torch targets (25 s once instead of in every file), and one with packages too for their
# tests. torch/torch.h is never included.
set(_torch_headers
  <ATen/ATen.h> <ATen/Parallel.h> <torch/csrc/autograd/custom_function.h> <torch/csrc/autograd/variable.h>
  <torch/csrc/autograd/autograd.h> <torch/library.h>
  <functional> <map> <memory> <string> <vector>)
add_library(ingot_torch_pch OBJECT ${CMAKE_SOURCE_DIR}/cmake/empty.cc)
target_link_libraries(ingot_torch_pch PRIVATE ingot_torch ingot_warnings)
target_precompile_headers(ingot_torch_pch PRIVATE ${_torch_headers})
if(INGOT_PCH_HEADERS)
  add_library(ingot_torch_test_pch OBJECT EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/cmake/empty.cc)
  target_link_libraries(ingot_torch_test_pch PRIVATE ingot_torch ${INGOT_PCH_LIBRARIES} GTest::gmock ingot_warnings)
  target_compile_options(ingot_torch_test_pch PRIVATE ${INGOT_TEST_OPTIONS})
  target_precompile_headers(ingot_torch_test_pch PRIVATE ${_torch_headers} ${INGOT_PCH_HEADERS} ${INGOT_PCH_TEST_HEADERS})
endif()

# ingot_use_torch_pch(TARGET [TEST])
function(ingot_use_torch_pch target)
  ingot_compile_as_library(${target})
  if("TEST" IN_LIST ARGN AND TARGET ingot_torch_test_pch)
    target_link_libraries(${target} PRIVATE ${INGOT_PCH_LIBRARIES})  # GCC needs the header's definitions in each file
    target_precompile_headers(${target} REUSE_FROM ingot_torch_test_pch)
  else()
    target_precompile_headers(${target} REUSE_FROM ingot_torch_pch)
  endif()
endfunction()
