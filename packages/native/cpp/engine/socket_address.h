// IP addresses between text and sockaddr. Names are resolved in JavaScript; only literals come here.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>

namespace verbmq {

class socket_address {
 public:
  /// An IPv4 or IPv6 literal, the latter with an optional `%zone`. Throws verbs_error "invalid-address".
  socket_address(const std::string& host, uint16_t port);

  const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&storage_); }

 private:
  sockaddr_storage storage_{};
};

struct host_and_port {
  std::string host;
  uint16_t port;
};

host_and_port format_address(const sockaddr* address);

}  // namespace verbmq
