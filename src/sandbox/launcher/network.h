// Sets up a sandbox's network with kNetNamespace: a loopback interface with one listening socket, on which the gateway
// accepts connections.
#pragma once

namespace ingot::sandbox::launcher {

// Returns a TCP socket in this process's network that is neither bound nor connected, or -1 with errno set.
int NewSocket();

// Starts the loopback interface and listens on 127.0.0.1:kInsidePort. Returns the descriptor, or -1 with errno set.
int ListenInside();

}  // namespace ingot::sandbox::launcher
