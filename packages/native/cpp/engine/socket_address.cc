#include "engine/socket_address.h"

#include <arpa/inet.h>
#include <net/if.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "verbs/verbs_error.h"

namespace verbmq {

socket_address::socket_address(const std::string& host, uint16_t port) {
  auto* v4 = reinterpret_cast<sockaddr_in*>(&storage_);
  if (inet_pton(AF_INET, host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    return;
  }
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&storage_);
  const size_t percent = host.find('%');
  if (inet_pton(AF_INET6, host.substr(0, percent).c_str(), &v6->sin6_addr) != 1) {
    throw verbs_error("invalid-address", "inet_pton", EINVAL, host + " is not an IPv4 or IPv6 address");
  }
  v6->sin6_family = AF_INET6;
  v6->sin6_port = htons(port);
  if (percent != std::string::npos) {
    const std::string zone = host.substr(percent + 1);
    v6->sin6_scope_id = if_nametoindex(zone.c_str());
    if (v6->sin6_scope_id == 0) v6->sin6_scope_id = static_cast<uint32_t>(std::strtoul(zone.c_str(), nullptr, 10));
  }
}

host_and_port format_address(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
    inet_ntop(AF_INET, &v4->sin_addr, text, sizeof text);
    return {text, ntohs(v4->sin_port)};
  }
  if (address->sa_family == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
    inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof text);
    return {text, ntohs(v6->sin6_port)};
  }
  return {"", 0};
}

}  // namespace verbmq
