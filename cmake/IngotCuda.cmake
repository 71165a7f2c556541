# libingot_cuda.so: everything that runs on a GPU or links torch_cuda. Programs open it at start (app/models/device.h).
#
# INGOT_WITH_CUDA builds it for GPUs, next to the binary, where programs find it. Without the option it is built for the tests on the
# stand-in (tests/standin) if there is a compiler: in a folder of its own, as PTX alone, and with cuda_declarations/nccl.h if NCCL's header is
# missing.
#
# nvcc is called directly: the wheels' toolkit lacks the layout that CMake's CUDA language expects.
set(INGOT_CUDA_HOME "" CACHE PATH "A CUDA 13 toolkit (bin/nvcc, include/, lib/); empty: .venv, CUDA_HOME, /usr/local/cuda")
if(INGOT_WITH_CUDA)
  set(INGOT_CUDA_GENCODE -gencode arch=compute_80,code=[sm_80,compute_80] -gencode arch=compute_90a,code=sm_90a)
  set(INGOT_CUDA_FOLDER ${CMAKE_BINARY_DIR})
  set(_lacks FATAL_ERROR)
else()
  set(INGOT_CUDA_GENCODE -gencode arch=compute_80,code=compute_80)
  set(INGOT_CUDA_FOLDER ${CMAKE_BINARY_DIR}/tests/standin/kernels)
  set(_lacks STATUS)
endif()
set(_cuda ${INGOT_CUDA_HOME})
if(NOT _cuda)
  file(GLOB _candidates ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/nvidia/cu13)
  foreach(_candidate ${_candidates} $ENV{CUDA_HOME} /usr/local/cuda)
    if(EXISTS ${_candidate}/bin/nvcc)
      set(_cuda ${_candidate})
      break()
    endif()
  endforeach()
endif()
if(NOT EXISTS ${_cuda}/bin/nvcc)
  message(${_lacks} "no CUDA compiler, so no libingot_cuda.so: run scripts/setup.sh cuda, or set INGOT_CUDA_HOME to a CUDA 13 toolkit")
  return()
endif()
if(NOT EXISTS ${INGOT_TORCH_LIBS}/libtorch_cuda.so)
  message(${_lacks} "no libingot_cuda.so, because the torch at ${INGOT_TORCH_LIBS} has no libtorch_cuda.so: set INGOT_TORCH_DIR to a CUDA build of torch 2.11")
  return()
endif()
find_file(INGOT_CUDART NAMES libcudart.so.13 libcudart.so PATHS ${_cuda}/lib ${_cuda}/lib64 NO_DEFAULT_PATH)
if(NOT INGOT_CUDART)
  message(${_lacks} "no libingot_cuda.so, because the CUDA toolkit at ${_cuda} has no libcudart.so.13")
  return()
endif()
file(GLOB _nccl ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/nvidia/nccl/include)
if(NOT EXISTS "${INGOT_NCCL_INCLUDE}/nccl.h")
  unset(INGOT_NCCL_INCLUDE CACHE)  # found once, and removed since
endif()
find_path(INGOT_NCCL_INCLUDE nccl.h HINTS ${_nccl} ${_cuda}/include)
message(STATUS "CUDA toolkit: ${_cuda}")

# ingot_cuda_object(OUT_VAR file.cu): its object, for the architectures above.
function(ingot_cuda_object out source)
  get_filename_component(_name ${source} NAME_WE)
  set(_object ${CMAKE_CURRENT_BINARY_DIR}/${_name}.cu.o)
  add_custom_command(
    OUTPUT ${_object}
    COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} ${_cuda}/bin/nvcc -ccbin ${CMAKE_CXX_COMPILER} -std=c++20 -O3
            ${INGOT_CUDA_GENCODE} -Werror all-warnings -Xcompiler -fPIC,-Wall -I${CMAKE_SOURCE_DIR}/src
            -I${CMAKE_SOURCE_DIR}/tests
            -MD -MF ${_object}.d -c ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${_object}
    DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${source}
    DEPFILE ${_object}.d
    COMMENT "nvcc ${source}" COMMAND_EXPAND_LISTS VERBATIM)
  set(${out} ${_object} PARENT_SCOPE)
endfunction()

add_library(ingot_cuda_runtime INTERFACE)
target_include_directories(ingot_cuda_runtime SYSTEM INTERFACE ${_cuda}/include)
target_link_libraries(ingot_cuda_runtime INTERFACE ${INGOT_CUDART})

add_library(ingot_torch_cuda INTERFACE)
# libtorch_cuda.so registers torch's own CUDA operators when it is loaded. Nothing here names one of its symbols, so a
# linker would leave it out.
target_link_libraries(ingot_torch_cuda INTERFACE ingot_cuda_runtime
  "-Wl,--push-state,--no-as-needed,${INGOT_TORCH_LIBS}/libtorch_cuda.so,--pop-state" ${INGOT_TORCH_LIBS}/libc10_cuda.so)
