# Compiler, linker and sanitizer settings, and the third-party packages every configuration uses.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
# Assertions stay on in release builds: a broken invariant stops the run instead of training on nonsense. Of debug
# information only line tables are kept, for stack traces of sanitizers and crashes.
# With a sanitizer, which adds code to each access, -O1 compiles in three quarters of the time.
set(CMAKE_CXX_FLAGS_RELEASE "-O2")
if(INGOT_SANITIZE)
  set(CMAKE_CXX_FLAGS_RELEASE "-O1")
endif()
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g1")

# GCC collects garbage whenever its memory has grown by 30 to 100 %, from a few MB on. A file here needs about 1 GB at its peak, and reaches it
# with a tenth more memory and a tenth to a fifth less time if nothing is collected before.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:SHELL:--param ggc-min-heapsize=1500000>")
endif()

find_program(INGOT_CCACHE ccache)
if(INGOT_CCACHE)
  # Without this sloppiness ccache caches no file that uses a precompiled header. With the base folder, paths of the project
  # count relative to the checkout, so that clones in several folders share compiled files.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
      CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${INGOT_CCACHE})
endif()
find_program(INGOT_MOLD mold)
if(INGOT_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

if(INGOT_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -g1)
  add_link_options(-fsanitize=thread)
elseif(INGOT_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=address,undefined)
elseif(INGOT_SANITIZE)
  message(FATAL_ERROR "INGOT_SANITIZE is '${INGOT_SANITIZE}': address, thread or empty")
endif()

# libFuzzer's targets (tests/gateway/fuzz_*): clang only.
if(INGOT_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "INGOT_FUZZ needs clang: configure with `cmake --preset fuzz`")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

find_package(Threads REQUIRED)
if(INGOT_KERNELS_ONLY)
  return()
endif()
find_package(absl REQUIRED)
find_package(spdlog REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(Boost 1.81 REQUIRED COMPONENTS system json url)
find_package(Protobuf REQUIRED)
find_package(GTest REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(simdjson REQUIRED)
find_package(prometheus-cpp REQUIRED)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8>=10.40)  # Unicode 14
pkg_check_modules(LIBCURL REQUIRED IMPORTED_TARGET libcurl>=7.87)  # the first version that abandons a name being resolved
pkg_check_modules(LIBPQ REQUIRED IMPORTED_TARGET libpq)
pkg_check_modules(RE2 REQUIRED IMPORTED_TARGET re2)
# Its -pthread would make the precompiled headers unusable, and does not affect code that starts no thread.
set_target_properties(PkgConfig::RE2 PROPERTIES INTERFACE_COMPILE_OPTIONS "")
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)
find_package(RocksDB REQUIRED)

# The allocator of programs (libraries and tests use the system's; sanitizers bring their own). Memory of a gateway call
# is allocated by some threads and freed by others, in blocks of all sizes: with jemalloc a call takes a sixth less time
# than with glibc's allocator, and a server's memory stays constant.
option(INGOT_JEMALLOC "Link the programs with jemalloc" ON)
add_library(ingot_allocator INTERFACE)
if(INGOT_JEMALLOC AND NOT INGOT_SANITIZE)
  find_library(INGOT_JEMALLOC_LIBRARY jemalloc REQUIRED)
  # Nothing names one of its symbols, so a linker would leave it out.
  target_link_libraries(ingot_allocator INTERFACE
    "-Wl,--push-state,--no-as-needed,${INGOT_JEMALLOC_LIBRARY},--pop-state")
  target_sources(ingot_allocator INTERFACE "${PROJECT_SOURCE_DIR}/src/base/allocator_options.cc")
endif()
if(INGOT_WITH_GRPC)
  find_package(gRPC REQUIRED)
  if(TARGET re2::re2)  # which gRPC links
    set_target_properties(re2::re2 PROPERTIES INTERFACE_COMPILE_OPTIONS "")
  endif()
endif()
