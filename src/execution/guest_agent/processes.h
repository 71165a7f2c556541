// The processes of a session.
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
  // Carries out one order of a process. Orders for one that has ended are dropped.
  void Obey(const FrameHeader& header, std::string_view payload);

  // Adds the pipes to wait for. Serve works on the ready ones. `polled` begins with the caller's own.
  void AddTo(std::vector<pollfd>& polled);
  void Serve(const std::vector<pollfd>& polled);
  // After SIGCHLD.
  void Reap();

 private:
  struct Process {
    int pid = 0;
    int in = -1;
    int out[3] = {-1, -1, -1};  // stdout, stderr, notes
    int64_t window = kWindowBytes;
    std::string pending;  // input that the pipe has not taken
    bool closes_input = false;
  };
  // The pipe of one polled descriptor.
  struct Place {
    uint32_t id;
    int pipe;  // of `out`; -1 = stdin
  };

  void Start(const FrameHeader& header, std::string_view payload);
  void Feed(uint32_t id, Process& process);
  // Sends at most `most` bytes that are there now. Closes the pipe at its end.
  void Forward(uint32_t id, Process& process, int pipe, int64_t most);
  void Finish(uint32_t id, Process& process, int status, const EndFacts& facts);

  std::map<uint32_t, Process> processes_;
  std::vector<Place> places_;  // of the descriptors after the caller's
  std::vector<int>
      left_behind_;  // output pipes of ended processes that daemons hold: read, so that writing does not kill them
};

}  // namespace ingot::execution::guest_agent
