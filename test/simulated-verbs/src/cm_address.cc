#include "cm_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <cerrno>
#include <cstring>

#include "world.h"

namespace simverbs {

namespace {

const sockaddr_in* v4(const sockaddr* address) { return reinterpret_cast<const sockaddr_in*>(address); }
const sockaddr_in6* v6(const sockaddr* address) { return reinterpret_cast<const sockaddr_in6*>(address); }

// A wildcard of IPv6 takes IPv4 as well, as sockets do.
bool overlap(const cm_id* one, const sockaddr* address) {
  const sockaddr* bound = &one->route.addr.src_addr;
  const bool both_families = (is_wildcard(bound) && bound->sa_family == AF_INET6) ||
                             (is_wildcard(address) && address->sa_family == AF_INET6);
  if (bound->sa_family != address->sa_family) return both_families;
  return is_wildcard(bound) || is_wildcard(address) || same_host(bound, address);
}

bool port_is_taken(const cm_id* id, const sockaddr* address) {
  const auto [first, last] = the_world().bound_ids.equal_range(port_of(address));
  for (auto each = first; each != last; ++each) {
    const cm_id* other = each->second;
    if (other->ps == id->ps && overlap(other, address)) return true;
  }
  return false;
}

}  // namespace

socklen_t address_bytes(const sockaddr* address) {
  if (address == nullptr) return 0;
  if (address->sa_family == AF_INET) return sizeof(sockaddr_in);
  if (address->sa_family == AF_INET6) return sizeof(sockaddr_in6);
  return 0;
}

bool is_wildcard(const sockaddr* address) {
  if (address->sa_family == AF_INET) return v4(address)->sin_addr.s_addr == INADDR_ANY;
  return IN6_IS_ADDR_UNSPECIFIED(&v6(address)->sin6_addr);
}

bool same_host(const sockaddr* left, const sockaddr* right) {
  if (left->sa_family != right->sa_family) return false;
  if (left->sa_family == AF_INET) return v4(left)->sin_addr.s_addr == v4(right)->sin_addr.s_addr;
  return std::memcmp(&v6(left)->sin6_addr, &v6(right)->sin6_addr, sizeof(in6_addr)) == 0;
}

bool is_local(const sockaddr* address) {
  if (is_wildcard(address)) return true;
  if (address->sa_family == AF_INET && (ntohl(v4(address)->sin_addr.s_addr) >> 24) == IN_LOOPBACKNET) return true;
  if (address->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6(address)->sin6_addr)) return true;
  ifaddrs* interfaces = nullptr;
  if (getifaddrs(&interfaces) != 0) return false;
  bool found = false;
  for (const ifaddrs* at = interfaces; at != nullptr && !found; at = at->ifa_next) {
    found = at->ifa_addr != nullptr && address_bytes(at->ifa_addr) != 0 && same_host(at->ifa_addr, address);
  }
  freeifaddrs(interfaces);
  return found;
}

__be16 port_of(const sockaddr* address) {
  if (address->sa_family == AF_INET) return v4(address)->sin_port;
  if (address->sa_family == AF_INET6) return v6(address)->sin6_port;
  return 0;
}

void set_port(sockaddr* address, __be16 port) {
  if (address->sa_family == AF_INET) reinterpret_cast<sockaddr_in*>(address)->sin_port = port;
  else reinterpret_cast<sockaddr_in6*>(address)->sin6_port = port;
}

void make_concrete(sockaddr_storage& storage) {
  auto* address = reinterpret_cast<sockaddr*>(&storage);
  if (!is_wildcard(address)) return;
  if (address->sa_family == AF_INET) reinterpret_cast<sockaddr_in*>(address)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  else reinterpret_cast<sockaddr_in6*>(address)->sin6_addr = in6addr_loopback;
}

int bind_id(cm_id* id, const sockaddr* address) {
  if (id->state != cm_state::idle) return EINVAL;
  if (!is_local(address)) return EADDRNOTAVAIL;
  sockaddr_storage chosen{};
  std::memcpy(&chosen, address, address_bytes(address));
  auto* target = reinterpret_cast<sockaddr*>(&chosen);
  if (port_of(target) != 0) {
    if (port_is_taken(id, target)) return EADDRINUSE;
  } else {
    static uint16_t next = 32768;
    constexpr uint16_t last = 60999;
    int tries = last - 32768 + 1;
    do {
      if (tries-- == 0) return EADDRNOTAVAIL;
      set_port(target, htons(next));
      next = next == last ? uint16_t{32768} : static_cast<uint16_t>(next + 1);
    } while (port_is_taken(id, target));
  }
  id->route.addr.src_storage = chosen;
  id->state = cm_state::bound;
  the_world().bound_ids.emplace(port_of(target), id);
  return 0;
}

void unbind_id(const cm_id* id) {
  auto& bound = the_world().bound_ids;
  const auto [first, last] = bound.equal_range(port_of(&id->route.addr.src_addr));
  for (auto each = first; each != last; ++each) {
    if (each->second != id) continue;
    bound.erase(each);
    return;
  }
}

cm_id* find_listener(const sockaddr* destination, rdma_port_space space) {
  cm_id* found = nullptr;
  for (const auto& [handle, id] : the_world().cm_ids) {
    if (id->state != cm_state::listening || id->ps != space) continue;
    const sockaddr* bound = &id->route.addr.src_addr;
    if (port_of(bound) != port_of(destination)) continue;
    if (same_host(bound, destination)) return id;
    if (is_wildcard(bound) && overlap(id, destination)) found = id;
  }
  return found;
}

}  // namespace simverbs
