// What JavaScript asks of connections through the shared array, and the memory that it registers for them.
#include <cstring>
#include <utility>

#include "engine/engine.h"
#include "verbs/verbs_error.h"

namespace verbmq {

namespace {

operation operation_of(const operation_submission& asked, operation_kind kind, const connection& of) {
  operation made{};
  made.kind = kind;
  made.token = asked.token;
  made.local = of.memory(asked.region);
  made.local_offset = asked.offset;
  made.bytes = asked.bytes;
  made.remote_address = asked.remote_address;
  made.rkey = asked.rkey;
  made.operand = asked.operand;
  made.swap = asked.swap;
  return made;
}

}  // namespace

void engine::submit(const event_record* records, size_t count) {
  for (size_t at = 0; at < count;) at += submit_one(records + at, count - at);
}

size_t engine::submit_one(const event_record* record, size_t available) {
  const auto kind = static_cast<submission_kind>(record->kind);
  const bool wide = kind >= submission_kind::read;
  if (wide && available < operation_submission::records) return available;
  const size_t taken = wide ? operation_submission::records : 1;
  const handle name = handle::from_value(static_cast<uint32_t>(record->handle));
  connection* of = find(name);
  if (of == nullptr) {
    // A message may be held for longer than its connection lives.
    if (kind == submission_kind::release) release_late(static_cast<uint32_t>(record->b), name, static_cast<uint32_t>(record->a));
    return taken;
  }

  operation_submission asked{};
  if (wide) std::memcpy(&asked, record, sizeof asked);
  const auto a = static_cast<uint32_t>(record->a);
  const auto b = static_cast<uint32_t>(record->b);
  bool valid = true;
  switch (kind) {
    case submission_kind::send: valid = of->submit(a, b); break;
    case submission_kind::release: valid = of->release(a); break;
    case submission_kind::ping: of->want_ping(); break;
    case submission_kind::fence: of->want_fence(); break;
    case submission_kind::read: valid = of->submit(operation_of(asked, operation_kind::read, *of)); break;
    case submission_kind::write: valid = of->submit(operation_of(asked, operation_kind::write, *of)); break;
    case submission_kind::fetch_add: valid = of->submit(operation_of(asked, operation_kind::fetch_add, *of)); break;
    case submission_kind::compare_and_swap:
      valid = of->submit(operation_of(asked, operation_kind::compare_and_swap, *of));
      break;
    case submission_kind::fetch: valid = of->fetch(asked.token, of->memory(asked.region), asked.offset); break;
    case submission_kind::advertise:
      valid = of->advertise(asked.token, of->memory(asked.region), asked.offset, asked.bytes);
      break;
    default: valid = false;
  }
  if (!valid) doom(*of, failure{"verbs", "a submission out of range was made"});
  mark_dirty(*of);
  return taken;
}

engine::registration engine::register_memory(handle connection, uint8_t* base, size_t bytes, uint32_t uses,
                                             std::shared_ptr<void> owner) {
  auto* of = find(connection);
  if (of == nullptr || !of->has_queue_pair()) {
    throw verbs_error("lost", "ibv_reg_mr", 0, "the connection has ended");
  }
  const region_number number = of->add_memory(base, bytes, uses, std::move(owner));
  return {number, reinterpret_cast<uintptr_t>(base), of->memory(number)->rkey()};
}

void engine::deregister_memory(handle connection, region_number region) {
  if (auto* of = find(connection)) of->remove_memory(region);
}

engine::memory_totals engine::registered_memory_totals() const {
  memory_totals totals;
  const auto add = [&](const connection& of) {
    totals.bytes += of.slab_bytes() + of.regions().bytes();
    totals.regions += of.slab_regions() + of.regions().count();
  };
  for (const entry& each : entries_) {
    if (each.peer && elsewhere_.count(each.peer) == 0) add(*each.peer);
  }
  for (const auto& of : elsewhere_) add(*of);
  for (const auto& [number, shared] : pools_) {
    const auto pool = shared.lock();
    if (!pool) continue;
    totals.bytes += pool->bytes();
    ++totals.regions;
  }
  return totals;
}

void engine::report_finished(connection& of) {
  for (const operation& done : of.finished()) {
    const auto token = static_cast<int32_t>(done.token);
    if (done.kind != operation_kind::fetch) {
      events_.push(event_kind::operation_done, of.self(), token);
      continue;
    }
    of.was_fetched(done.token);
    events_.push(event_kind::fetched, of.self(), token, static_cast<int32_t>(done.bytes));
  }
  of.reported_finished();
}

bool engine::send_note(handle connection, note_bytes said) {
  auto* of = find(connection);
  if (of == nullptr || !of->notes().ask(std::move(said))) return false;
  mark_dirty(*of);
  return true;
}

bool engine::send_answer(handle connection, note_bytes said) {
  auto* of = find(connection);
  if (of == nullptr || !of->notes().reply(std::move(said))) return false;
  mark_dirty(*of);
  return true;
}

std::optional<note_bytes> engine::take_note(handle connection) {
  auto* of = find(connection);
  if (of == nullptr) return std::nullopt;
  return of->notes().take_question();
}

std::optional<note_bytes> engine::take_answer(handle connection) {
  auto* of = find(connection);
  if (of == nullptr) return std::nullopt;
  return of->notes().take_answer();
}

}  // namespace verbmq
