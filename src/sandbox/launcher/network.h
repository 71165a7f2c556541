// The network of a sandbox with kNetNamespace: a loopback interface and one listening socket, which the gateway accepts
// on.
#pragma once

namespace ingot::sandbox::launcher {

// A TCP socket of this process's network, neither bound nor connected. Returns the descriptor; -1: errno says why.
int NewSocket();

// Starts the loopback interface and listens on 127.0.0.1:kInsidePort. Returns the descriptor; -1: errno says why.
int ListenInside();

}  // namespace ingot::sandbox::launcher
