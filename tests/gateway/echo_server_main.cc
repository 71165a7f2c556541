// A gateway over a scripted engine, to try clients against by hand: prints its address and serves until stdin ends.
//   echo_server [--episodes]     with it, episodes must be opened; otherwise any key works
// The model answers a prompt with tools, and no result yet, with a call of the first tool; otherwise with what the user
// said last.
#include <cstdio>
#include <string>

#include "gateway/fakes.h"
#include "gateway/http/http_server.h"

namespace ingot::gateway {
namespace {

Script Respond(const v1::GenerateRequest& request) {
  const std::string prompt =
      TestTokenizer()->Decode(std::vector<int32_t>(request.prompt_ids().begin(), request.prompt_ids().end()), false);
  Script script;
  const size_t name = prompt.find("\"function\": {\"name\": \"");
  if (name != std::string::npos && prompt.find("<tool_response>\n") == std::string::npos) {
    const size_t begin = name + 22;
    script.text = "Let me see.\n<tool_call>\n{\"name\": \"" + prompt.substr(begin, prompt.find('"', begin) - begin) +
                  "\", \"arguments\": {\"a\": 1, \"b\": 2}}\n</tool_call>";
    return script;
  }
  const std::string user = "<|im_start|>user\n";
  const size_t last = prompt.rfind(user) + user.size();
  script.text = "You said: " + prompt.substr(last, prompt.find("<|im_end|>", last) - last);
  return script;
}

int Main(bool episodes) {
  World world(Respond);
  world.with_admission = world.with_pool = episodes;
  http::Options options;
  options.port = 0;
  auto server = HttpServer::Start(options, world.gateway());
  if (!server.ok()) {
    std::fprintf(stderr, "%s\n", server.status().ToString().c_str());
    return 1;
  }
  std::printf("%s\n", (*server)->url().c_str());
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return 0;
}

}  // namespace
}  // namespace ingot::gateway

int main(int argc, char** argv) { return ingot::gateway::Main(argc > 1 && std::string(argv[1]) == "--episodes"); }
