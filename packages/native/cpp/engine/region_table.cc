#include "engine/region_table.h"

#include <string>
#include <utility>

#include "verbs/verbs_error.h"

namespace verbmq {

namespace {

int access_for(uint32_t uses, bool iwarp) {
  int access = 0;
  if (uses & use_remote_read) access |= IBV_ACCESS_REMOTE_READ;
  // Verbs want the right to write locally wherever the peer may.
  if (uses & use_remote_write) access |= IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE;
  if (uses & use_remote_atomic) access |= IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_LOCAL_WRITE;
  if (uses & use_sink) access |= IBV_ACCESS_LOCAL_WRITE;
  // With iWARP the answer to a read is a write of the peer's into the sink (RFC 5040, section 5.3).
  if ((uses & use_sink) && iwarp) access |= IBV_ACCESS_REMOTE_WRITE;
  return access;
}

}  // namespace

region_number region_table::add(const std::shared_ptr<protection_domain>& domain, bool iwarp, uint8_t* base,
                                size_t bytes, uint32_t uses, std::shared_ptr<void> owner) {
  if (regions_.size() >= most_regions) {
    throw verbs_error("no-resources", "ibv_reg_mr", 0,
                      "a connection registers at most " + std::to_string(most_regions) + " pieces of memory");
  }
  auto added =
      std::make_shared<const registered_memory>(domain, base, bytes, access_for(uses, iwarp), std::move(owner));
  regions_.emplace(++last_, std::move(added));
  bytes_ += bytes;
  return last_;
}

void region_table::remove(region_number number) {
  const auto found = regions_.find(number);
  if (found == regions_.end()) return;
  bytes_ -= found->second->bytes();
  regions_.erase(found);
}

std::shared_ptr<const registered_memory> region_table::find(region_number number) const {
  const auto found = regions_.find(number);
  return found == regions_.end() ? nullptr : found->second;
}

}  // namespace verbmq
