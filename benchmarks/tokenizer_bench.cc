// Encoding speed of a tokenizer.json on one thread, in turns with another implementation:
//
//   tokenizer_bench DIR FILE      DIR has tokenizer.json; FILE has texts, separated by NUL bytes
//
// Prints the number of texts and bytes, then waits: each line on stdin encodes all texts once and prints the seconds
// and the number of ids; "decode" as the line decodes those ids instead. benchmarks/tokenizer_bench.py drives it. The
// piece cache is as the last round left it. Seconds are of processor time, so that a busy machine does not count. Not
// measured: loading, special tokens in the text, several threads.
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "text/tokenizer/tokenizer.h"

namespace {

double CpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: tokenizer_bench DIR FILE\n");
    return 2;
  }
  const double load = CpuSeconds();
  const auto tokenizer = ingot::text::LoadTokenizer(argv[1]);
  if (!tokenizer.ok()) {
    std::fprintf(stderr, "%s\n", tokenizer.status().ToString().c_str());
    return 1;
  }
  const double load_seconds = CpuSeconds() - load;
  std::ifstream file(argv[2], std::ios::binary);
  std::vector<std::string> texts;
  size_t bytes = 0;
  for (std::string text; std::getline(file, text, '\0');) {
    bytes += text.size();
    texts.push_back(std::move(text));
  }
  std::printf("%zu %zu %.3f\n", texts.size(), bytes, load_seconds);
  std::fflush(stdout);
  std::vector<std::vector<int32_t>> ids(texts.size());
  for (std::string line; std::getline(std::cin, line);) {
    size_t count = 0;
    const double start = CpuSeconds();
    if (line == "decode") {
      for (const auto& list : ids) count += (*tokenizer)->DecodeText(list, false).size();
    } else {
      for (size_t i = 0; i < texts.size(); ++i) {
        ids[i] = (*tokenizer)->Encode(texts[i], true);
        count += ids[i].size();
      }
    }
    std::printf("%.6f %zu\n", CpuSeconds() - start, count);
    std::fflush(stdout);
  }
  return 0;
}
