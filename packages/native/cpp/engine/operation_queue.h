// One-sided operations of a connection on the peer's memory: those that wait, and those whose work requests are posted.
//
// They start in the order in which they were asked for, and are reported in that order. Devices need not complete them in
// it, nor in their place among the sends: with Soft-iWARP a send that was posted behind a read completes first, while the
// read is still on its way. So each piece has its own completion, and none completes another. A long operation is cut into pieces, so that several of its
// reads are under way at once and no piece exceeds what a port carries in one. Never are more reads (and atomics, which
// count as reads) under way than both devices have agreed on: a device that is given more stops its send queue until
// earlier ones are answered, and everything behind them with it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <infiniband/verbs.h>

#include "engine/fifo.h"
#include "engine/region_table.h"

namespace verbmq {

/// `fetch` reads a large message that the peer has advertised.
enum class operation_kind : uint8_t { read, write, fetch_add, compare_and_swap, fetch };

struct operation {
  operation_kind kind;
  uint32_t token;  // JavaScript's name for it; the slot of the advertisement for a fetch
  std::shared_ptr<const registered_memory> local;
  uint64_t local_offset;
  uint64_t bytes;  // at least 1; 8 for the atomic ones, whose result, the value before, lands in the local memory
  uint64_t remote_address;
  uint32_t rkey;
  uint64_t operand = 0;  // what is added, or what is expected
  uint64_t swap = 0;

  /// Counts against the read depth.
  bool is_read() const noexcept { return kind != operation_kind::write; }
};

class operation_queue {
 public:
  /// Work requests that may be posted and not complete; the send queue has room for them beside its sends.
  static constexpr uint32_t slots = 32;
  /// Reads in flight that are asked of the devices; few have more.
  static constexpr uint32_t wished_read_depth = 16;
  /// The largest piece: as many as may be in flight are 4 MiB, the default window for large messages.
  static constexpr uint32_t wished_piece_bytes = 1u << 18;

  /// `read_depth` is what both devices have agreed on, `port_bytes` the most that the port carries in one request.
  void configure(uint32_t read_depth, uint32_t port_bytes) noexcept;
  uint32_t read_depth() const noexcept { return read_depth_; }

  /// Work requests that are given out by next() and not complete.
  size_t outstanding() const noexcept { return posted_.size(); }

  void push(operation added) { waiting_.push_back(std::move(added)); }

  /// The next piece that may be posted now, as a work request that lacks its id and flags. It counts as posted.
  struct piece {
    uint32_t number;  // for its completion; 24 bits
    ibv_send_wr request;
    ibv_sge local;
  };
  std::optional<piece> next();

  /// Piece `number` is complete. Appends the operations that can be reported with it. A number that is not posted
  /// completes nothing.
  void complete(uint32_t number, std::vector<operation>& finished);

  /// Whether piece `number` is posted and belongs to a fetch.
  bool is_fetch(uint32_t number) const noexcept;

 private:
  struct posted_piece {
    bool is_fetch;
    bool is_read;
    bool is_last;
    bool is_complete;
  };

  uint32_t read_depth_ = 0;
  uint32_t piece_bytes_ = wished_piece_bytes;
  fifo<operation> waiting_;
  uint64_t first_staged_bytes_ = 0;  // of the first that waits
  fifo<operation> started_;          // all of their pieces are posted
  fifo<posted_piece> posted_;
  uint32_t first_number_ = 0;  // of those posted
  uint32_t reads_posted_ = 0;
};

}  // namespace verbmq
