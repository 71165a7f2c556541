// `ingot tasks generate`: writes search tasks with a model. Keeps tasks with correct quotes and answers.
#pragma once

#include <cstdint>
#include <string>

namespace ingot::app {

struct TasksGenerateArgs {
  std::string source;  // JSON lines of chunks: {"id", "text"}
  std::string out;     // replaced at the end; OUT.part stores the outcomes, so a stopped run can continue
  std::string url;     // base URL of OpenAI's chat completions API; empty = OPENAI_BASE_URL
  std::string model = "default";
  std::string key_env = "OPENAI_API_KEY";  // the environment variable with the key; unset = no key
  int64_t count = 100;
  int64_t hops = 2;                    // maximum length of a chain
  int64_t min_hops = 1;                // shorter chains are dropped
  int64_t documents = 4;               // chunks shown to the model for each hop
  int64_t distractors = 8;             // similar chunks that the model classifies; 0 = none
  int64_t document_characters = 4000;  // characters of a chunk that the model sees
  int64_t concurrency = 4;
  int64_t tries = 6;       // attempts per request
  double timeout_s = 300;  // per request
  double temperature = 0.7;
  int64_t seed = 1;
  std::string domain;  // domain of all tasks; empty = none
  bool schema = true;  // sends a JSON schema for the answers
  std::string python;  // empty = reward::UserPython
};

// Runs the Python program, outside the data path. Returns the exit code.
int TasksGenerate(const TasksGenerateArgs& args);

}  // namespace ingot::app
