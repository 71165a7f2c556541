// `ingot text` as a program of its own, which builds in seconds, for comparisons with other implementations:
//
//   text_tool NAME DIR [--special] [--skip-special] [--like-transformers]
#include <cstring>
#include <iostream>

#include "app/commands/model/text_command.h"

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  ingot::app::TextArgs args;
  if (argc < 3) {
    std::cerr << "usage: text_tool NAME DIR [--special] [--skip-special] [--like-transformers]\n";
    return 2;
  }
  args.tokenizer_dir = argv[2];
  for (int i = 3; i < argc; ++i) {
    if (std::strcmp(argv[i], "--special") == 0) args.special = true;
    if (std::strcmp(argv[i], "--skip-special") == 0) args.skip_special = true;
    if (std::strcmp(argv[i], "--like-transformers") == 0) args.like_transformers = true;
  }
  return ingot::app::RunTextCommand(argv[1], args, std::cin, std::cout, std::cerr);
}
