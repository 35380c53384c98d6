// Addresses and ports of the simulated network: those of this machine, ports of their own.
#pragma once

#include <sys/socket.h>

#include "cm_objects.h"

namespace simverbs {

/// Bytes of the address structure, 0 for a family that is not known.
socklen_t address_bytes(const sockaddr* address);
bool is_wildcard(const sockaddr* address);
bool same_host(const sockaddr* left, const sockaddr* right);
/// Whether an interface of this machine has the address; the wildcard and loopback always count.
bool is_local(const sockaddr* address);
/// Network byte order.
__be16 port_of(const sockaddr* address);
void set_port(sockaddr* address, __be16 port);
/// The loopback address when `address` is a wildcard; else itself.
void make_concrete(sockaddr_storage& address);

/// Binds an id to an address, choosing a port when it names none. A positive errno or 0.
int bind_id(cm_id* id, const sockaddr* address);
/// The id ends, and its port is free.
void unbind_id(const cm_id* id);
/// The listener that takes a request for the address, or nullptr.
cm_id* find_listener(const sockaddr* destination, rdma_port_space space);

}  // namespace simverbs
