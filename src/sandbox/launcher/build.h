// The launcher's program in its second use: the sandbox of an image build. A build needs mounts and several uids, so it
// is root of a user namespace with a range of uids; a sandbox gets one uid and no rights.
//
//   keeper outside ── clone ──▶ first process ── fork ──▶ builder (buildah) ──▶ RUN steps
//   root, waits                 root without               root of the user namespace alone
//                               capabilities, reaps
//
//   namespaces of the first process    PID, mount, network, IPC, host name: owned by the machine's root
//   namespaces of the builder          user, mount, control groups: its own
//
// So the builder cannot change the network, and cannot take away what the first process mounted: a mount that comes
// from the namespace of another user is locked. Seen from outside, its files and processes have uids that no other user
// has.
#pragma once

namespace ingot::sandbox::launcher {

// Takes an order (build_messages.h) from stdin, and ends with the exit code of the builder, or 128 and its signal. With
// this process everything in the sandbox ends, and with the first process of the sandbox too.
[[noreturn]] void RunBuild();

}  // namespace ingot::sandbox::launcher
