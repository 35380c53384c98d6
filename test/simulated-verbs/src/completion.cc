#include "completion.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <random>

#include "hardware.h"
#include "queue_pair.h"
#include "world.h"

namespace simverbs {

namespace {

struct waiting_event {
  uint32_t queue;
  int64_t due_us;
};
std::deque<waiting_event> waiting_events;

int64_t jitter_us() {
  const settings& set = the_world().set;
  if (set.completion_jitter_us <= 0) return 0;
  static std::minstd_rand random;
  static int64_t seeded_with = -1;
  if (seeded_with != set.jitter_seed) {
    random.seed(static_cast<uint32_t>(set.jitter_seed));
    seeded_with = set.jitter_seed;
  }
  return static_cast<int64_t>(random() % static_cast<uint64_t>(set.completion_jitter_us));
}

void notify(completion_queue* queue) {
  queue->armed = completion_queue::arming::none;
  if (queue->channel == nullptr) return;
  world& w = the_world();
  if (w.faults.take_dropped_cq_event()) {
    ++w.counts["lost-cq-events"];
    return;
  }
  waiting_events.push_back({queue->handle, now_us() + w.set.cq_event_delay_us});
  pump_cq_events();
}

// A completion queue without room has lost a completion for good: it and everything that uses it is in error.
void overrun(completion_queue* queue) {
  world& w = the_world();
  if (queue->overrun) return;
  queue->overrun = true;
  ++w.counts["cq-overruns"];
  ibv_async_event event{};
  event.event_type = IBV_EVENT_CQ_ERR;
  event.element.cq = queue;
  raise_async(queue->context, event);
  std::vector<uint32_t> users;
  for (const auto& [number, pair] : w.queue_pairs) {
    if (pair->send_cq == queue || pair->recv_cq == queue) users.push_back(number);
  }
  for (const uint32_t number : users) {
    queue_pair* pair = w.find_queue_pair(number);
    ibv_async_event fatal{};
    fatal.event_type = IBV_EVENT_QP_FATAL;
    fatal.element.qp = pair;
    raise_async(pair->context, fatal);
    enter_error(pair);
  }
}

void push(completion_queue* queue, const completion& what) {
  if (queue->overrun || queue->entries.size() >= static_cast<size_t>(queue->cqe)) {
    overrun(queue);
    return;
  }
  queue->entries.push_back(what);
  const bool wakes = queue->armed == completion_queue::arming::any ||
                     (queue->armed == completion_queue::arming::solicited &&
                      (what.solicited || what.entry.status != IBV_WC_SUCCESS));
  if (wakes) notify(queue);
}

void pump(queue_pair* pair, bool sends) {
  world& w = the_world();
  completion_stream& stream = sends ? pair->send_completions : pair->receive_completions;
  const hold_point point = sends ? hold_point::send_completions : hold_point::receive_completions;
  auto* queue = static_cast<completion_queue*>(sends ? pair->send_cq : pair->recv_cq);
  while (!stream.queue.empty()) {
    if (w.faults.is_held(point, pair->qp_num)) return;
    const int64_t wait_us = stream.queue.front().due_us - now_us();
    if (wait_us > 0) {
      if (stream.pumping) return;
      stream.pumping = true;
      after(wait_us, [number = pair->qp_num, sends] {
        queue_pair* still = the_world().find_queue_pair(number);
        if (still == nullptr) return;
        (sends ? still->send_completions : still->receive_completions).pumping = false;
        pump(still, sends);
      });
      return;
    }
    const completion what = stream.queue.front().what;
    stream.queue.pop_front();
    if (!w.set.slots_freed_at_poll) (sends ? pair->send_slots : pair->receive_slots) -= what.slots;
    push(queue, what);
  }
}

// The oldest first, so that a test knows what it releases.
std::vector<uint32_t> queue_pairs_oldest_first() {
  std::vector<uint32_t> numbers;
  for (const auto& [number, pair] : the_world().queue_pairs) numbers.push_back(number);
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

}  // namespace

void complete(queue_pair* pair, completion what) {
  const settings& set = the_world().set;
  completion_stream& stream = what.is_send ? pair->send_completions : pair->receive_completions;
  const int64_t delay_us =
      (what.is_send ? set.send_completion_delay_us : set.receive_completion_delay_us) + jitter_us();
  if (what.entry.status == IBV_WC_WR_FLUSH_ERR) ++the_world().counts["flushed"];
  stream.queue.push_back({what, delay_us == 0 ? 0 : now_us() + delay_us});
  pump(pair, what.is_send);
}

ibv_wc success_entry(const queue_pair* pair, const send_work& work) {
  ibv_wc entry{};
  entry.wr_id = work.request.wr_id;
  entry.status = IBV_WC_SUCCESS;
  entry.qp_num = pair->qp_num;
  entry.byte_len = work.byte_count;
  switch (work.request.opcode) {
    case IBV_WR_RDMA_READ: entry.opcode = IBV_WC_RDMA_READ; break;
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM: entry.opcode = IBV_WC_RDMA_WRITE; break;
    case IBV_WR_ATOMIC_CMP_AND_SWP: entry.opcode = IBV_WC_COMP_SWAP; break;
    case IBV_WR_ATOMIC_FETCH_AND_ADD: entry.opcode = IBV_WC_FETCH_ADD; break;
    case IBV_WR_BIND_MW: entry.opcode = IBV_WC_BIND_MW; break;
    case IBV_WR_LOCAL_INV: entry.opcode = IBV_WC_LOCAL_INV; break;
    default: entry.opcode = IBV_WC_SEND; break;
  }
  return entry;
}

ibv_wc failed_entry(uint64_t wr_id, ibv_wc_status status, uint32_t queue_pair) {
  ibv_wc entry;
  std::memset(&entry, 0xee, sizeof entry);
  // A value that no opcode has would be undefined behaviour to read as one; the most misleading real one is not.
  entry.opcode = IBV_WC_BIND_MW;
  entry.wr_id = wr_id;
  entry.status = status;
  entry.qp_num = queue_pair;
  entry.vendor_err = 0x5eed;
  return entry;
}

void hurry_completions(const completion_queue* queue) {
  for (const uint32_t number : queue_pairs_oldest_first()) {
    queue_pair* pair = the_world().find_queue_pair(number);
    for (const bool sends : {true, false}) {
      if (pair == nullptr || (sends ? pair->send_cq : pair->recv_cq) != queue) continue;
      for (auto& each : (sends ? pair->send_completions : pair->receive_completions).queue) each.due_us = 0;
      pump(pair, sends);
    }
  }
}

void pump_all_completions() {
  for (const uint32_t number : queue_pairs_oldest_first()) {
    if (queue_pair* pair = the_world().find_queue_pair(number)) {
      pump(pair, true);
      pump(pair, false);
    }
  }
}

void pump_cq_events() {
  world& w = the_world();
  static bool pumping = false;
  while (!waiting_events.empty()) {
    if (w.faults.is_held(hold_point::cq_events, 0)) return;
    const int64_t wait_us = waiting_events.front().due_us - now_us();
    if (wait_us > 0) {
      if (pumping) return;
      pumping = true;
      after(wait_us, [] {
        pumping = false;
        pump_cq_events();
      });
      return;
    }
    const auto found = w.completion_queues.find(waiting_events.front().queue);
    waiting_events.pop_front();
    if (found == w.completion_queues.end()) continue;
    ++w.counts["cq-events"];
    static_cast<completion_channel*>(found->second->channel)->events.push(found->second);
  }
}

int64_t held_completions(bool sends) {
  int64_t count = 0;
  for (const auto& [number, pair] : the_world().queue_pairs) {
    count += static_cast<int64_t>((sends ? pair->send_completions : pair->receive_completions).queue.size());
  }
  return count;
}

int64_t held_cq_events() { return static_cast<int64_t>(waiting_events.size()); }

void remove_completions(completion_queue* queue, uint32_t queue_pair) {
  auto& entries = queue->entries;
  entries.erase(std::remove_if(entries.begin(), entries.end(),
                               [=](const completion& what) { return what.entry.qp_num == queue_pair; }),
                entries.end());
}

}  // namespace simverbs
