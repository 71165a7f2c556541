// Starts, feeds, and reaps a session's processes.
#pragma once

#include <poll.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "execution/guest_agent_messages.h"

namespace ingot::execution::guest_agent {

class Processes {
 public:
  // Executes one request for a process. Ignores requests for processes that have ended.
  void HandleRequest(const FrameHeader& header, std::string_view payload);

  // AddTo appends the pipes to poll to `polled`, which begins with the caller's descriptors. Serve handles the pipes
  // that are ready.
  void AddTo(std::vector<pollfd>& polled);
  void Serve(const std::vector<pollfd>& polled);
  // Call after SIGCHLD.
  void Reap();

 private:
  struct Process {
    int pid = 0;
    int in = -1;
    int out[3] = {-1, -1, -1};  // stdout, stderr, notes
    int64_t window = kWindowBytes;
    std::string pending;  // input that the pipe has not accepted yet
    bool closes_input = false;
  };
  // Maps a polled descriptor to its pipe.
  struct Place {
    uint32_t id;
    int pipe;  // index in `out`; -1 = stdin
  };

  void Start(const FrameHeader& header, std::string_view payload);
  void Feed(uint32_t id, Process& process);
  // Sends up to `most` available bytes. Closes the pipe at end of file.
  void Forward(uint32_t id, Process& process, int pipe, int64_t most);
  void Finish(uint32_t id, Process& process, int status, const EndFacts& facts);

  std::map<uint32_t, Process> processes_;
  std::vector<Place> places_;  // one per descriptor after the caller's
  std::vector<int>
      // output pipes of ended processes that daemons still have open; read so that writing does not kill the daemons
      left_behind_;
};

}  // namespace ingot::execution::guest_agent
