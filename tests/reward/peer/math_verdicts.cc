// The verdicts of the verifier `math`, for a comparison with math-verify (compare_math.py):
//
//   math_verdicts PYTHON < PAIRS        a JSON object per line, {"answer": .., "task": {"answer": ..}}
//
// prints a line for each: the reward, or the error.
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>

#include "base/json_text.h"
#include "reward/verifier.h"
#include "sandbox/local_substrate.h"

int main(int argc, char** argv) {
  namespace reward = ingot::reward;
  if (argc != 2) {
    std::cerr << "usage: math_verdicts PYTHON < PAIRS\n";
    return 2;
  }
  char folder[] = "/tmp/ingot-math-XXXXXX";
  ingot::sandbox::SubstrateOptions place;
  place.work_root = mkdtemp(folder);
  place.agent_uid = "shared";
  auto substrate = ingot::sandbox::LocalSubstrate::Make(place);
  reward::VerifierOptions options;
  options.kind = "math";
  options.math.python = argv[1];
  options.math.workers = 2;
  auto verifier = reward::Verifier::Make(options);
  if (!substrate.ok() || !verifier.ok()) {
    std::cerr << "math_verdicts: " << substrate.status() << ", " << verifier.status() << "\n";
    return 1;
  }
  for (std::string line; std::getline(std::cin, line);) {
    const ingot::base::JsonText pair(line);
    const std::string task = pair.At("task")->Compact();
    reward::VerifierInput input;
    input.task = task;
    input.answer = pair.At("answer")->string();
    input.substrate = substrate->get();
    const auto verdict = (*verifier)->Verify(input);
    if (verdict.ok()) {
      std::cout << verdict->reward << std::endl;
    } else {
      std::cout << verdict.status() << std::endl;
    }
  }
  verifier->reset();  // its processes end before their folders
  substrate->reset();
  std::filesystem::remove_all(folder);
  return 0;
}
