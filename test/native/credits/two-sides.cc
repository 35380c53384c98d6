// Every state that the control credits of two sides can come to, whatever they say and whenever it arrives, checked for one in
// which a side cannot speak and nothing on its way will change that. Small numbers of slots show all there is to see.
//
// Usage: two-sides SLOTS SLOTS DATA, the control slots of either side, and the data frames that each may send. Those carry
// credits too, need no control slot, and take none back: the worst an application can do is to pause with them in its hands.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <type_traits>
#include <unordered_set>
#include <vector>

#include "engine/credits.h"

using verbmq::credits;
static_assert(std::is_trivially_copyable_v<credits>);

namespace {

struct frame {
  bool is_data;
  uint8_t control_credits;
};

struct side {
  credits own;
  std::vector<frame> arriving;
};

struct state {
  std::array<side, 2> sides;

  std::string key() const {
    std::string bytes;
    for (const side& each : sides) {
      bytes.append(reinterpret_cast<const char*>(&each.own), sizeof each.own);
      bytes.push_back(static_cast<char>(each.arriving.size()));
      for (const frame& one : each.arriving) {
        bytes.push_back(static_cast<char>(one.is_data));
        bytes.push_back(static_cast<char>(one.control_credits));
      }
    }
    return bytes;
  }
};

[[noreturn]] void fail(const char* what, const state& in) {
  std::printf("%s\n", what);
  for (const side& each : in.sides) {
    std::printf("  may send control: %d, owes a grant: %d, frames on their way to it: %zu\n", each.own.may_send_control(),
                each.own.grant_is_due(), each.arriving.size());
  }
  std::exit(1);
}

void send(state& in, int from, bool is_data) {
  credits& own = in.sides[from].own;
  const uint8_t given = own.take_control();
  if (is_data) own.sent_data();
  else own.sent_control();
  in.sides[1 - from].arriving.push_back({is_data, given});
}

void receive(state& in, int to) {
  side& at = in.sides[to];
  const frame first = at.arriving.front();
  at.arriving.erase(at.arriving.begin());
  if (!at.own.received(first.is_data) || !at.own.granted(0, first.control_credits)) {
    fail("more came than there are slots", in);
  }
  if (!first.is_data) at.own.reposted(0, 1);
}

/// What both sides do by themselves when nobody has anything to say: take what is on its way, and give what is due.
void expect_both_may_speak_in_the_end(state in) {
  for (int steps = 0; steps < 100; ++steps) {
    bool moved = false;
    for (int at = 0; at < 2; ++at) {
      side& here = in.sides[at];
      while (!here.arriving.empty()) {
        receive(in, at);
        moved = true;
      }
      if (here.own.grant_is_due() && here.own.may_send_control()) {
        send(in, at, false);
        moved = true;
      }
    }
    if (moved) continue;
    for (const side& each : in.sides) {
      if (!each.own.may_send_control()) fail("a side can never speak again", in);
    }
    return;
  }
  fail("grants call each other for ever", in);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) return 2;
  const std::array<uint32_t, 2> slots{static_cast<uint32_t>(std::atoi(arguments[1])),
                                      static_cast<uint32_t>(std::atoi(arguments[2]))};
  const auto data = static_cast<uint32_t>(std::atoi(arguments[3]));
  state first;
  for (int at = 0; at < 2; ++at) {
    // All bytes are part of the key.
    std::memset(static_cast<void*>(&first.sides[at].own), 0, sizeof(credits));
    first.sides[at].own = credits(data, slots[at]);
    first.sides[at].own.set_peer(data, slots[1 - at], 0);
  }
  std::unordered_set<std::string> seen{first.key()};
  std::vector<state> open{first};
  while (!open.empty()) {
    const state at = std::move(open.back());
    open.pop_back();
    expect_both_may_speak_in_the_end(at);
    const auto visit = [&](state next) {
      if (seen.insert(next.key()).second) open.push_back(std::move(next));
    };
    for (int who = 0; who < 2; ++who) {
      const side& here = at.sides[who];
      if (here.own.may_send_control()) {
        state next = at;
        send(next, who, false);
        visit(std::move(next));
      }
      if (here.own.may_send_data()) {
        state next = at;
        send(next, who, true);
        visit(std::move(next));
      }
      if (!here.arriving.empty()) {
        state next = at;
        receive(next, who);
        visit(std::move(next));
      }
    }
  }
  std::printf("%zu states\n", seen.size());
  return 0;
}
