#include "sandbox/launcher/network.h"

#include <arpa/inet.h>
#include <linux/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox/launch_messages.h"

namespace ingot::sandbox::launcher {

int NewSocket() { return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); }

int ListenInside() {
  const int fd = NewSocket();
  if (fd < 0) return -1;
  ifreq loopback{};
  strcpy(loopback.ifr_name, "lo");
  loopback.ifr_flags = IFF_UP | IFF_RUNNING;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(kInsidePort);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (ioctl(fd, SIOCSIFFLAGS, &loopback) == 0 &&
      bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 && listen(fd, SOMAXCONN) == 0) {
    return fd;
  }
  close(fd);
  return -1;
}

}  // namespace ingot::sandbox::launcher
