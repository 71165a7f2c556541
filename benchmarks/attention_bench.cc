// Tree attention on the CPU compared with torch's matrix product and attention: kernels/torch/attention_bench.h
// explains each line.
//
//   cmake --preset release -DINGOT_BUILD_BENCHMARKS=ON && ninja -C build/release attention_bench
//   build/release/benchmarks/attention_bench [threads [repeat [shape ...]]]
//
// Not measured: fp64, head widths other than 128, more than one machine load.
#include "kernels/torch/attention_bench.h"

#include <ATen/Parallel.h>

#include <cstdio>
#include <cstdlib>
#include <exception>

int main(int argc, char** argv) {
  ingot::kernels::AttentionBenchOptions options;
  if (argc > 1 && std::atoi(argv[1]) > 0) at::set_num_threads(std::atoi(argv[1]));
  if (argc > 2) options.repeat = std::atoi(argv[2]);
  for (int i = 3; i < argc; ++i) options.shapes.push_back(argv[i]);
  try {
    ingot::kernels::RunAttentionBench(options, [](const std::string& line) {
      std::puts(line.c_str());
      std::fflush(stdout);
    });
  } catch (const std::exception& error) {
    std::fprintf(stderr, "attention_bench: %s\n", error.what());
    return 2;
  }
  return 0;
}
