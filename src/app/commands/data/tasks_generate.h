// `ingot tasks generate`: makes search tasks about a corpus with a model, and keeps those whose quotes and answers hold.
#pragma once

#include <cstdint>
#include <string>

namespace ingot::app {

struct TasksGenerateArgs {
  std::string source;  // JSON lines of chunks: {"id", "text"}
  std::string out;     // replaced at the end; OUT.part keeps the outcomes, so that a stopped generation continues
  std::string url;     // base URL of OpenAI's chat completions API; empty = OPENAI_BASE_URL
  std::string model = "default";
  std::string key_env = "OPENAI_API_KEY";  // the environment variable with the key; unset = no key
  int64_t count = 100;
  int64_t hops = 2;                    // longest chain
  int64_t min_hops = 1;                // shorter chains are dropped
  int64_t documents = 4;               // chunks shown for each hop
  int64_t distractors = 8;             // similar chunks that are sorted; 0 = none
  int64_t document_characters = 4000;  // characters of a chunk that the model sees
  int64_t concurrency = 4;
  int64_t tries = 6;       // of each request
  double timeout_s = 300;  // of each request
  double temperature = 0.7;
  int64_t seed = 1;
  std::string domain;  // of the tasks; empty = none
  bool schema = true;  // asks for the answers' JSON schema
  std::string python;  // empty = reward::UserPython
};

// Runs the Python program, outside the data path. Returns the exit code.
int TasksGenerate(const TasksGenerateArgs& args);

}  // namespace ingot::app
