// The hosts that a build of an image may reach (agents.image_build_hosts). Entries name host and port:
//
//   pypi.org:443         that name
//   *.pythonhosted.org:443   every name below it, not itself
//   10.0.0.7:5000, [fd00::7]:5000   an address
//
// The list applies to the name as requested. The address that the name resolves to is checked too (MayReach): a
// stranger's name must not lead into this machine or its network.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ingot::sandbox {

// What an address reaches.
//   kPublic    anyone on the internet
//   kPrivate   the owner's network (RFC 1918, unique local addresses, carrier-grade NAT, ..)
//   kLocal     this machine, its link, or nothing: loopback, link-local (with clouds' metadata services), multicast,
//              reserved
enum class AddressKind { kPublic, kPrivate, kLocal };

// IPv6 addresses that hold one of IPv4 (mapped, NAT64, 6to4) are of its kind. Does not know this machine's own
// addresses.
AddressKind KindOf(const sockaddr& address);
// True: one of this machine's interfaces has it.
bool IsOwnAddress(const sockaddr& address);

struct HostPort {
  std::string host;  // in small letters, without brackets and a last dot
  int port = 0;
};
// "HOST:PORT" or "[V6]:PORT". INVALID_ARGUMENT: it is none.
absl::StatusOr<HostPort> ParseHostPort(std::string_view text);
// As ParseHostPort reads it.
std::string Text(const HostPort& host);

class EgressList {
 public:
  // INVALID_ARGUMENT names the wrong entry.
  static absl::StatusOr<EgressList> Parse(const std::vector<std::string>& entries);

  // kName: an entry has exactly this host. kBelow: it is below a "*." entry. kNone: the list does not have it.
  enum class Match { kNone, kBelow, kName };
  Match Find(const HostPort& host) const;

  // True if a host with this match may be reached at this address. Public ones always; private ones by name; this
  // machine's and its link's only where the entry is the address itself, or "localhost".
  static bool MayReach(Match match, const HostPort& host, const sockaddr& address);

 private:
  struct Entry {
    HostPort host;
    bool is_below = false;
  };
  std::vector<Entry> entries_;
};

}  // namespace ingot::sandbox
