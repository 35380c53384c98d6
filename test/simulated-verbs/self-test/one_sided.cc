// Reads, writes, atomic operations, and who may do them.
#include <cerrno>

#include "fixture.h"

namespace {

bool on_iwarp() {
  int64_t iwarp = 0;
  CHECK_EQUAL(simverbs_get("iwarp", &iwarp), 0);
  return iwarp != 0;
}

int post(endpoint& from, ibv_wr_opcode opcode, size_t local, uint32_t bytes, const endpoint& to, size_t remote,
         uint32_t rkey) {
  ibv_sge sge = from.piece(local, bytes);
  ibv_send_wr request{};
  request.wr_id = 1;
  request.sg_list = &sge;
  request.num_sge = 1;
  request.opcode = opcode;
  request.send_flags = IBV_SEND_SIGNALED;
  const auto address = reinterpret_cast<uint64_t>(to.buffer.data() + remote);
  if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    request.wr.atomic.remote_addr = address;
    request.wr.atomic.compare_add = 5;
    request.wr.atomic.swap = 77;
    request.wr.atomic.rkey = rkey;
  } else {
    request.wr.rdma.remote_addr = address;
    request.wr.rdma.rkey = rkey;
  }
  ibv_send_wr* bad = nullptr;
  return refused_with(from.id->qp, ibv_post_send(from.id->qp, &request, &bad));
}

uint64_t word(const endpoint& end, size_t offset) {
  uint64_t value;
  std::memcpy(&value, &end.buffer[offset], sizeof value);
  return value;
}

void reads_and_writes() {
  connection both;
  std::memcpy(&both.passive.buffer[40000], "remote words", 12);
  CHECK_EQUAL(post(both.active, IBV_WR_RDMA_READ, 0, 12, both.passive, 40000, both.passive.mr->rkey), 0);
  const ibv_wc read = both.active.wait();
  CHECK_EQUAL(read.status, IBV_WC_SUCCESS);
  CHECK_EQUAL(read.opcode, IBV_WC_RDMA_READ);
  CHECK_EQUAL(std::memcmp(both.active.buffer.data(), "remote words", 12), 0);
  std::memcpy(both.active.buffer.data(), "local  words", 12);
  CHECK_EQUAL(post(both.active, IBV_WR_RDMA_WRITE, 0, 12, both.passive, 50000, both.passive.mr->rkey), 0);
  CHECK_EQUAL(both.active.wait().status, IBV_WC_SUCCESS);
  // A later message says that the write is there.
  both.active.send(2, 0, 1);
  CHECK_EQUAL(both.passive.wait().wr_id, 100u);
  CHECK_EQUAL(std::memcmp(&both.passive.buffer[50000], "local  words", 12), 0);
  CHECK(both.passive.quiet());
}

void atomics() {
  connection both({}, [] {
    endpoint_options options;
    options.access |= IBV_ACCESS_REMOTE_ATOMIC;
    return options;
  }());
  const uint32_t rkey = both.passive.mr->rkey;
  if (on_iwarp()) {
    CHECK_EQUAL(post(both.active, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8, both.passive, 40000, rkey), EINVAL);
    return;
  }
  const size_t at = 40000 + (8 - reinterpret_cast<uint64_t>(&both.passive.buffer[40000]) % 8) % 8;
  CHECK_EQUAL(post(both.active, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8, both.passive, at, rkey), 0);
  CHECK_EQUAL(both.active.wait().status, IBV_WC_SUCCESS);
  CHECK_EQUAL(word(both.active, 0), 0u);
  CHECK_EQUAL(word(both.passive, at), 5u);
  CHECK_EQUAL(post(both.active, IBV_WR_ATOMIC_CMP_AND_SWP, 0, 8, both.passive, at, rkey), 0);
  CHECK_EQUAL(both.active.wait().opcode, IBV_WC_COMP_SWAP);
  CHECK_EQUAL(word(both.active, 0), 5u);
  CHECK_EQUAL(word(both.passive, at), 77u);
  CHECK_EQUAL(simverbs_set("atomic_results_big_endian", 1), 0);
  CHECK_EQUAL(post(both.active, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8, both.passive, at, rkey), 0);
  both.active.wait();
  CHECK_EQUAL(word(both.active, 0), __builtin_bswap64(77));
  CHECK_EQUAL(post(both.active, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8, both.passive, at + 1, rkey), 0);
  CHECK_EQUAL(both.active.wait().status, IBV_WC_REM_INV_REQ_ERR);
}

void forbids(ibv_wr_opcode opcode, size_t remote, uint32_t bytes, bool forged, int access) {
  endpoint_options options;
  options.access = access;
  connection both({}, options);
  const uint32_t rkey = both.passive.mr->rkey + (forged ? 256 * 1000 : 0);
  CHECK_EQUAL(post(both.active, opcode, 0, bytes, both.passive, remote, rkey), 0);
  const ibv_wc failed = both.active.wait();
  if (on_iwarp()) {
    CHECK_EQUAL(failed.status, opcode == IBV_WR_RDMA_READ ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS);
    expect_event(both.events, RDMA_CM_EVENT_DISCONNECTED);
  } else {
    CHECK_EQUAL(failed.status, IBV_WC_REM_ACCESS_ERR);
  }
  // The responder's receives come back as well.
  for (int i = 0; i < 8; ++i) CHECK_EQUAL(both.passive.wait().status, IBV_WC_WR_FLUSH_ERR);
}

void forbidden_access() {
  constexpr int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  forbids(IBV_WR_RDMA_READ, 0, 16, true, all);
  forbids(IBV_WR_RDMA_READ, endpoint::buffer_bytes - 8, 16, false, all);
  forbids(IBV_WR_RDMA_READ, 0, 16, false, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  forbids(IBV_WR_RDMA_WRITE, 0, 16, false, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
}

void read_sink_on_iwarp() {
  endpoint_options options;
  options.access = IBV_ACCESS_LOCAL_WRITE;
  connection both(options, {});
  CHECK_EQUAL(post(both.active, IBV_WR_RDMA_READ, 0, 16, both.passive, 0, both.passive.mr->rkey), 0);
  CHECK_EQUAL(both.active.wait().status, on_iwarp() ? IBV_WC_LOC_PROT_ERR : IBV_WC_SUCCESS);
}

void more_reads_than_the_depth_wait() {
  CHECK_EQUAL(simverbs_set("read_us", 2000), 0);
  endpoint_options options;
  options.reads = 2;
  connection both(options, options);
  for (int i = 0; i < 6; ++i) {
    CHECK_EQUAL(post(both.active, IBV_WR_RDMA_READ, 0, 16, both.passive, 0, both.passive.mr->rkey), 0);
  }
  for (int i = 0; i < 6; ++i) CHECK_EQUAL(both.active.wait().status, IBV_WC_SUCCESS);
  CHECK_EQUAL(simverbs_count("reads"), 6);
}

void windows() {
  int64_t windows = 0;
  simverbs_get("memory_windows", &windows);
  endpoint_options options;
  options.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;
  connection both({}, options);
  ibv_mw* window = ibv_alloc_mw(both.passive.pd, IBV_MW_TYPE_2);
  if (!windows) {
    CHECK(window == nullptr);
    CHECK_EQUAL(errno, EOPNOTSUPP);
    return;
  }
  ibv_send_wr bind{};
  bind.wr_id = 5;
  bind.opcode = IBV_WR_BIND_MW;
  bind.send_flags = IBV_SEND_SIGNALED;
  bind.bind_mw.mw = window;
  bind.bind_mw.rkey = ibv_inc_rkey(window->rkey);
  bind.bind_mw.bind_info = {both.passive.mr, reinterpret_cast<uint64_t>(&both.passive.buffer[1000]), 100,
                            IBV_ACCESS_REMOTE_READ};
  const uint32_t rkey = bind.bind_mw.rkey;
  ibv_send_wr* bad = nullptr;
  CHECK_EQUAL(ibv_post_send(both.passive.id->qp, &bind, &bad), 0);
  CHECK_EQUAL(both.passive.wait().opcode, IBV_WC_BIND_MW);
  CHECK_EQUAL(post(both.active, IBV_WR_RDMA_READ, 0, 100, both.passive, 1000, rkey), 0);
  CHECK_EQUAL(both.active.wait().status, IBV_WC_SUCCESS);
  ibv_send_wr invalidate{};
  invalidate.opcode = IBV_WR_LOCAL_INV;
  invalidate.send_flags = IBV_SEND_SIGNALED;
  invalidate.invalidate_rkey = rkey;
  CHECK_EQUAL(ibv_post_send(both.passive.id->qp, &invalidate, &bad), 0);
  CHECK_EQUAL(both.passive.wait().opcode, IBV_WC_LOCAL_INV);
  CHECK_EQUAL(post(both.active, IBV_WR_RDMA_READ, 0, 100, both.passive, 1000, rkey), 0);
  CHECK_EQUAL(both.active.wait().status, IBV_WC_REM_ACCESS_ERR);
  CHECK_EQUAL(ibv_dealloc_mw(window), 0);
}

}  // namespace

const test_case one_sided_cases[] = {
    {"reads-and-writes", reads_and_writes},
    {"atomics", atomics},
    {"forbidden-access", forbidden_access},
    {"read-sink-on-iwarp", read_sink_on_iwarp},
    {"more-reads-than-the-depth-wait", more_reads_than_the_depth_wait},
    {"windows", windows},
    {nullptr, nullptr},
};
