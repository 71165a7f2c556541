// Compiles CUDA sources to PTX where there is a compiler, for tests.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "test_paths.h"

namespace ingot::standin::ptx {

// nvcc of INGOT_CUDA_HOME, of the repository's .venv, of CUDA_HOME or /usr/local/cuda; empty if there is none.
inline std::string FindNvcc() {
  namespace fs = std::filesystem;
  std::vector<fs::path> homes;
  for (const char* name : {"INGOT_CUDA_HOME", "CUDA_HOME"}) {
    if (const char* home = getenv(name)) homes.emplace_back(home);
  }
  homes.emplace_back("/usr/local/cuda");
  std::error_code ignored;
  for (const auto& python : fs::directory_iterator(fs::path(INGOT_SOURCE_DIR) / ".venv/lib", ignored)) {
    homes.push_back(python.path() / "site-packages/nvidia/cu13");
  }
  for (const fs::path& home : homes) {
    if (fs::exists(home / "bin/nvcc", ignored)) return home / "bin/nvcc";
  }
  return "";
}

// The PTX of a source below the repository, for compute_80; empty, and a failure of the test, if it does not compile.
inline std::string CompilePtx(const std::string& nvcc, const std::string& source, const std::string& flags) {
  char folder[] = "/tmp/ingot-ptx-XXXXXX";
  if (mkdtemp(folder) == nullptr) return "";
  const std::string root = INGOT_SOURCE_DIR, out = std::string(folder) + "/out.ptx";
  const std::string command = nvcc + " -std=c++20 -O3 -arch=compute_80 --ptx -I" + root + "/src -I" + root + "/tests " +
                              flags + " " + root + "/" + source + " -o " + out;
  EXPECT_EQ(system(command.c_str()), 0) << command;
  std::ifstream file(out);
  std::ostringstream text;
  text << file.rdbuf();
  std::filesystem::remove_all(folder);
  return text.str();
}

}  // namespace ingot::standin::ptx
