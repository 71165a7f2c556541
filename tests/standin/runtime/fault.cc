// Names a host access to device memory. The window has no access right, so such an access raises SIGSEGV in the thread that made it.
#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "standin/runtime/memory.h"

namespace ingot::standin {
namespace {

struct sigaction earlier;

void Print(const char* text) { (void)!::write(STDERR_FILENO, text, std::strlen(text)); }

// Which function reads or writes, and which object of the window. The process ends: nothing here need be safe for a process that lives on.
void Name(uint64_t address) {
  char text[300];
  const MemoryRange range = GetMemory().Find(address);
  if (range.kind == MemoryKind::kDevice) {
    std::snprintf(text, sizeof(text),
                  "stand-in: the host accessed device memory: byte %llu of an allocation of %zu bytes\n",
                  static_cast<unsigned long long>(address - range.begin), range.bytes);
  } else {
    std::snprintf(text, sizeof(text), "stand-in: the host accessed device memory that is not allocated\n");
  }
  Print(text);
  void* frames[24];
  ::backtrace_symbols_fd(frames, ::backtrace(frames, 24), STDERR_FILENO);
}

void OnFault(int signal, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<uint64_t>(info->si_addr);
  if (GetMemory().InWindow(address)) Name(address);
  ::sigaction(signal, &earlier, nullptr);  // the access repeats, and whoever came earlier sees it
}

// Keeps the processes that this one starts from running on the stand-in too.
void Disinherit() {
  ::unsetenv("LD_PRELOAD");
  if (const char* paths = ::getenv("INGOT_STANDIN_EARLIER_LIBRARY_PATH"); paths != nullptr) {
    *paths == '\0' ? ::unsetenv("LD_LIBRARY_PATH") : ::setenv("LD_LIBRARY_PATH", paths, 1);
    ::unsetenv("INGOT_STANDIN_EARLIER_LIBRARY_PATH");
  }
}

// Loaded by LD_PRELOAD: for this process, and for those that it starts only with INGOT_STANDIN_INHERIT, as for the roles of `ingot launch`.
__attribute__((constructor)) void Start() {
  if (::getenv("INGOT_STANDIN_INHERIT") == nullptr) Disinherit();
  void* frames[1];
  ::backtrace(frames, 1);  // loads what it needs now, outside of the handler
  struct sigaction action = {};
  action.sa_sigaction = OnFault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigaction(SIGSEGV, &action, &earlier);
}

}  // namespace
}  // namespace ingot::standin
