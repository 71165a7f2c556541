#include "sandbox/egress/egress_list.h"

#include <arpa/inet.h>
#include <ifaddrs.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"

namespace ingot::sandbox {
namespace {

struct Block {
  uint32_t first;
  int bits;
  AddressKind kind;
};

// IANA's special-purpose IPv4 blocks. The first match is used.
constexpr Block kBlocks[] = {
    {0x00000000, 8, AddressKind::kLocal},     // this network
    {0x7f000000, 8, AddressKind::kLocal},     // loopback
    {0xa9fe0000, 16, AddressKind::kLocal},    // link-local
    {0x0a000000, 8, AddressKind::kPrivate},   // RFC 1918
    {0xac100000, 12, AddressKind::kPrivate},  // RFC 1918
    {0xc0a80000, 16, AddressKind::kPrivate},  // RFC 1918
    {0x64400000, 10, AddressKind::kPrivate},  // carrier-grade NAT
    {0xc0000000, 24, AddressKind::kPrivate},  // protocol assignments
    {0xc6120000, 15, AddressKind::kPrivate},  // benchmarks
    {0xa83f8110, 32, AddressKind::kLocal},    // Azure's virtual machine host
    {0xe0000000, 4, AddressKind::kLocal},     // multicast
    {0xf0000000, 4, AddressKind::kLocal},     // reserved, broadcast
};

AddressKind KindOfV4(uint32_t address) {
  for (const Block& block : kBlocks) {
    if ((address ^ block.first) >> (32 - block.bits) == 0) return block.kind;
  }
  return AddressKind::kPublic;
}

uint32_t V4At(const uint8_t* bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

bool StartsWith(const uint8_t* bytes, std::initializer_list<uint8_t> first) {
  return std::equal(first.begin(), first.end(), bytes);
}

AddressKind KindOfV6(const uint8_t* bytes) {
  if (StartsWith(bytes, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff})) return KindOfV4(V4At(bytes + 12));  // mapped
  if (StartsWith(bytes, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})) return AddressKind::kLocal;  // ::, ::1, compatible
  if (StartsWith(bytes, {0, 0x64, 0xff, 0x9b, 0, 1})) return AddressKind::kPrivate;         // a network's own NAT64
  if (StartsWith(bytes, {0, 0x64, 0xff, 0x9b})) return KindOfV4(V4At(bytes + 12));          // NAT64
  if (StartsWith(bytes, {0x20, 0x02})) return KindOfV4(V4At(bytes + 2));                    // 6to4
  if (StartsWith(bytes, {0x20, 0x01, 0, 0})) return AddressKind::kLocal;                    // Teredo
  if ((bytes[0] & 0xfe) == 0xfc) return AddressKind::kPrivate;                              // unique local
  if (bytes[0] == 0xfe) return (bytes[1] & 0xc0) == 0xc0 ? AddressKind::kPrivate : AddressKind::kLocal;  // site, link
  return (bytes[0] & 0xe0) == 0x20 ? AddressKind::kPublic : AddressKind::kLocal;                         // 2000::/3
}

const uint8_t* BytesOf(const sockaddr& address) {
  if (address.sa_family == AF_INET)
    return reinterpret_cast<const uint8_t*>(&reinterpret_cast<const sockaddr_in&>(address).sin_addr);
  return reinterpret_cast<const sockaddr_in6&>(address).sin6_addr.s6_addr;
}

// Returns the 16 bytes of either family. IPv4 is mapped to IPv6.
std::array<uint8_t, 16> Mapped(const sockaddr& address) {
  std::array<uint8_t, 16> bytes{};
  if (address.sa_family == AF_INET6) {
    std::memcpy(bytes.data(), BytesOf(address), 16);
  } else {
    bytes[10] = bytes[11] = 0xff;
    std::memcpy(bytes.data() + 12, BytesOf(address), 4);
  }
  return bytes;
}

bool IsAddress(const std::string& host) {
  in6_addr any;
  return inet_pton(AF_INET, host.c_str(), &any) == 1 || inet_pton(AF_INET6, host.c_str(), &any) == 1;
}

bool IsName(std::string_view host) {
  return !host.empty() && host.size() <= 253 && host.front() != '.' &&
         std::all_of(host.begin(), host.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' || c == '_';
         });
}

}  // namespace

AddressKind KindOf(const sockaddr& address) {
  if (address.sa_family == AF_INET) return KindOfV4(V4At(BytesOf(address)));
  return address.sa_family == AF_INET6 ? KindOfV6(BytesOf(address)) : AddressKind::kLocal;
}

bool IsOwnAddress(const sockaddr& address) {
  ifaddrs* found = nullptr;
  if (getifaddrs(&found) != 0) return true;  // unknown, so assume it is
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> list(found, freeifaddrs);
  for (const ifaddrs* each = found; each != nullptr; each = each->ifa_next) {
    const sockaddr* const own = each->ifa_addr;
    if (own == nullptr || (own->sa_family != AF_INET && own->sa_family != AF_INET6)) continue;
    if (Mapped(*own) == Mapped(address)) return true;
  }
  return false;
}

absl::StatusOr<HostPort> ParseHostPort(std::string_view text) {
  const absl::Status wrong =
      absl::InvalidArgumentError(absl::StrCat("'", base::View(text.substr(0, 200)), "' is not HOST:PORT"));
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return wrong;
  HostPort parsed;
  const std::string_view port = text.substr(colon + 1);
  if (port.empty() || port.size() > 5 ||
      !std::all_of(port.begin(), port.end(), [](char c) { return c >= '0' && c <= '9'; }) ||
      !absl::SimpleAtoi(base::View(port), &parsed.port) || parsed.port < 1 || parsed.port > 65535) {
    return wrong;
  }
  parsed.host = absl::AsciiStrToLower(base::View(text.substr(0, colon)));
  if (parsed.host.starts_with('[') && parsed.host.ends_with(']')) {
    parsed.host = parsed.host.substr(1, parsed.host.size() - 2);
    in6_addr any;
    if (inet_pton(AF_INET6, parsed.host.c_str(), &any) != 1) return wrong;
    return parsed;
  }
  if (parsed.host.ends_with('.')) parsed.host.pop_back();
  return IsName(parsed.host) ? absl::StatusOr<HostPort>(parsed) : wrong;
}

std::string Text(const HostPort& host) {
  const bool is_v6 = host.host.find(':') != std::string::npos;
  return absl::StrCat(is_v6 ? "[" : "", host.host, is_v6 ? "]:" : ":", host.port);
}

absl::StatusOr<EgressList> EgressList::Parse(const std::vector<std::string>& entries) {
  EgressList list;
  for (const std::string& entry : entries) {
    const bool is_below = entry.starts_with("*.");
    const auto host = ParseHostPort(std::string_view(entry).substr(is_below ? 2 : 0));
    if (!host.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", entry, "' is not a valid host for builds: use HOST:PORT, *.DOMAIN:PORT, or [IPV6]:PORT"));
    }
    list.entries_.push_back({*host, is_below});
  }
  return list;
}

EgressList::Match EgressList::Find(const HostPort& host) const {
  Match match = Match::kNone;
  for (const Entry& entry : entries_) {
    if (entry.host.port != host.port) continue;
    if (!entry.is_below && entry.host.host == host.host) return Match::kName;
    if (entry.is_below && host.host.ends_with("." + entry.host.host)) match = Match::kBelow;
  }
  return match;
}

bool EgressList::MayReach(Match match, const HostPort& host, const sockaddr& address) {
  if (match == Match::kName && (IsAddress(host.host) || host.host == "localhost")) return true;
  const AddressKind kind = KindOf(address);
  if (kind == AddressKind::kLocal || IsOwnAddress(address)) return false;
  return kind == AddressKind::kPublic || match == Match::kName;
}

}  // namespace ingot::sandbox
