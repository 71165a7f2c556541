// Runs an image build in a sandbox. This is the launcher program's second mode. A build needs mounts and several uids,
// so it is root in a user namespace with a range of uids. Other sandboxes get one uid and no privileges.
//
//   keeper outside ── clone ──▶ first process ── fork ──▶ builder (buildah) ──▶ RUN steps
//   root, waits                 root without               root in the user namespace only
//                               capabilities, reaps
//
//   namespaces of the first process    PID, mount, network, IPC, host name: owned by the machine's root
//   namespaces of the builder          user, mount, control groups: owned by the builder
//
// So the builder cannot change the network or remove the first process's mounts, because mounts from another user
// namespace are locked. On the host, its files and processes have uids that no other user has.
#pragma once

namespace ingot::sandbox::launcher {

// Reads a request (build_messages.h) from stdin. Exits with the builder's exit code, or with 128 + signal. When this
// process or the sandbox's first process ends, everything in the sandbox ends.
[[noreturn]] void RunBuild();

}  // namespace ingot::sandbox::launcher
