// Opens the device library for tests that run under standin.py.
#pragma once

#include <ATen/ATen.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace ingot::trainer {

// Opens libingot_cuda.so, which INGOT_CUDA_LIBRARY names. Returns false after a failed expectation.
inline bool OpenDevice() {
  static const bool open = [] {
    const char* const path = std::getenv("INGOT_CUDA_LIBRARY");
    void* const library = ::dlopen(path == nullptr ? "" : path, RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(library, nullptr) << ::dlerror();
    if (library != nullptr) at::globalContext().lazyInitDevice(at::kCUDA);
    return library != nullptr;
  }();
  return open;
}

}  // namespace ingot::trainer
