// Parses and matches the list of hosts that an image build may reach (agents.image_build_hosts). Each entry is a host
// and a port:
//
//   pypi.org:443         exactly this name
//   *.pythonhosted.org:443   all subdomains, but not the name itself
//   10.0.0.7:5000, [fd00::7]:5000   an address
//
// The list applies to the requested name. The address that the name resolves to is also checked (MayReach), so that an
// untrusted name cannot lead to this machine or its network.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ingot::sandbox {

// The scope of an address.
//   kPublic    the internet
//   kPrivate   the owner's network (RFC 1918, unique local addresses, carrier-grade NAT, ...)
//   kLocal     this machine or its link: loopback, link-local (including cloud metadata services), multicast, reserved
enum class AddressKind { kPublic, kPrivate, kLocal };

// IPv6 addresses that embed an IPv4 address (mapped, NAT64, 6to4) have the scope of that address. Does not recognize
// this machine's own addresses.
AddressKind KindOf(const sockaddr& address);
// Returns whether one of this machine's interfaces has the address.
bool IsOwnAddress(const sockaddr& address);

struct HostPort {
  std::string host;  // lowercase, without brackets or a trailing dot
  int port = 0;
};
// Parses "HOST:PORT" or "[V6]:PORT". Returns INVALID_ARGUMENT for anything else.
absl::StatusOr<HostPort> ParseHostPort(std::string_view text);
// Formats `host` so that ParseHostPort can read it.
std::string Text(const HostPort& host);

class EgressList {
 public:
  // Returns INVALID_ARGUMENT, naming the entry, if an entry is invalid.
  static absl::StatusOr<EgressList> Parse(const std::vector<std::string>& entries);

  // kName = an entry has exactly this host, kBelow = the host is below a "*." entry, kNone = it is not in the list.
  enum class Match { kNone, kBelow, kName };
  Match Find(const HostPort& host) const;

  // Returns whether a host with this match may be reached at this address. Public addresses are always allowed. Private
  // addresses require kName. Addresses of this machine and its link are allowed only if the entry is the address itself
  // or "localhost".
  static bool MayReach(Match match, const HostPort& host, const sockaddr& address);

 private:
  struct Entry {
    HostPort host;
    bool is_below = false;
  };
  std::vector<Entry> entries_;
};

}  // namespace ingot::sandbox
